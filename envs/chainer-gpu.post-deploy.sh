#!/usr/bin/env bash
set -euo pipefail
python -m pip install --no-build-isolation --no-deps chainer==7.8.1
