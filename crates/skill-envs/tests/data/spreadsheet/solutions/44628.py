import openpyxl

book = openpyxl.load_workbook(INPUT_PATH)
sheet = book.active
for column in "DEFG":
    sheet[f"{column}3"] = f"=SUMPRODUCT((LEFT($A$2:$A$10,1)={column}2)*$B$2:$B$10)"
book.save(OUTPUT_PATH)
