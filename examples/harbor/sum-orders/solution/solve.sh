#!/bin/bash
awk -F, 'NR > 1 && $2 != "cancelled" { sum += $3 } END { printf "%.2f\n", sum }' "$ORDERS" > /app/answer.txt
