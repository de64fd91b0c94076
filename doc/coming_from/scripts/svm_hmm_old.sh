svm_hmm_learn -c 5 -e 0.5 train.dat model.dat
svm_hmm_classify test.dat model.dat predicted.tags
