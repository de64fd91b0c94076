wapiti train -2 0.25 -p template.txt train.txt model
wapiti label -m model test.txt tagged.txt
wapiti label -c -m model test.txt
