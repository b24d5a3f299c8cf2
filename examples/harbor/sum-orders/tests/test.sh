#!/bin/bash
# A reward is written whatever the answer is: without one the task would be at fault, not the agent.
if [ "$(tr -d '[:space:]' < /app/answer.txt)" = 150.50 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
