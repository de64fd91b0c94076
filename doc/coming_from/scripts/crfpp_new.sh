sksstruct train train.txt --template template.txt --loss log --c2 0.125 -m model.joblib
sksstruct tag test.txt -m model.joblib -o tagged.txt
sksstruct tag test.txt -m model.joblib --test
