"""Writes a data set of SpreadsheetBench: twelve tasks, whose column C is to be twice column B."""

import json
import os

import openpyxl

lines = []
for number in range(1, 13):
    folder = f"spreadsheet/{number}"
    os.makedirs(f"sheets/{folder}")
    for kind in ("input", "answer"):
        book = openpyxl.Workbook()
        sheet = book.active
        sheet.append(["parcel", "weight", "double"])
        for row in range(2, 5):
            weight = 10 * number + row
            sheet.append([f"P{row}", weight, 2 * weight if kind == "answer" else None])
        book.save(f"sheets/{folder}/1_{number}_{kind}.xlsx")
    lines.append(json.dumps({
        "id": number, "instruction": f"Put twice the weight into column C of sheet {number}.",
        "instruction_type": "Cell-Level Manipulation", "answer_position": "C2:C4", "spreadsheet_path": folder,
    }))
open("sheets/dataset.jsonl", "w").write("\n".join(lines) + "\n")
