#!/usr/bin/env bash
# Installs poot with a sentence encoder's weights and ranks pairs of sentences by likeness, on the CPU by default:
#   bash tools/demo.sh                                  a few sentences of its own
#   bash tools/demo.sh "A cat naps." "A kitten sleeps."  yours
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/env.sh
ensure_env demo llm
exec "$venv/bin/python" examples/sentence_similarity.py "$@"
