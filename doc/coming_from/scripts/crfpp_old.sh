crf_learn -c 4.0 template.txt train.txt model
crf_test -m model test.txt > tagged.txt
conlleval.pl -d '\t' < tagged.txt
