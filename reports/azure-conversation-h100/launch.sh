#!/bin/sh
# AzureLLMInferenceTrace_conv-h100: one of 1 replica, H100-80GB-SXM
# The flags are exactly those of plan.json.
exec vllm serve meta-llama/Llama-3.1-70B-Instruct --dtype bfloat16 --kv-cache-dtype auto \
  --tensor-parallel-size 4 --pipeline-parallel-size 1 --data-parallel-size 1 \
  --max-num-batched-tokens 2048 --max-num-seqs 1024 --max-model-len 131072 \
  --gpu-memory-utilization 0.92 --block-size 16 --enable-prefix-caching --async-scheduling
