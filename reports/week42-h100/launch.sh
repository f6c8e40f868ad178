#!/bin/sh
# week42-h100: one of 8 replicas, H100-80GB-SXM
# The flags are exactly those of plan.json.
exec vllm serve meta-llama/Llama-3.1-8B-Instruct --dtype bfloat16 --kv-cache-dtype auto \
  --tensor-parallel-size 1 --pipeline-parallel-size 1 --data-parallel-size 1 \
  --max-num-batched-tokens 8192 --max-num-seqs 1024 --max-model-len 131072 \
  --gpu-memory-utilization 0.92 --block-size 16 --enable-prefix-caching --async-scheduling
