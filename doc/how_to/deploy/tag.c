/* Label sentences with a model file of CRFsuite.

   cc tag.c -lcrfsuite -lm -o tag
   ./tag MODEL < FILE

   A line has the attributes of one token, separated by tabs. An empty line ends a
   sentence. The labels are printed one a line. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <crfsuite.h>

enum { MAX_LINE = 1 << 20 };

static void tag(crfsuite_tagger_t *tagger, crfsuite_dictionary_t *labels,
                crfsuite_instance_t *sentence)
{
    int *found = malloc(sizeof(int) * (sentence->num_items + 1));
    const char *label;
    double score;
    int t;

    if (found == NULL || (sentence->num_items &&
            (tagger->set(tagger, sentence) || tagger->viterbi(tagger, found, &score)))) {
        fputs("a sentence cannot be labeled\n", stderr);
        exit(1);
    }
    for (t = 0; t < sentence->num_items; ++t) {
        labels->to_string(labels, found[t], &label);
        puts(label);
        labels->free(labels, label);
    }
    if (sentence->num_items)
        putchar('\n');
    free(found);
    crfsuite_instance_finish(sentence);
    crfsuite_instance_init(sentence);
}

int main(int argc, char **argv)
{
    static char line[MAX_LINE];
    crfsuite_model_t *model = NULL;
    crfsuite_tagger_t *tagger = NULL;
    crfsuite_dictionary_t *labels = NULL, *attributes = NULL;
    crfsuite_instance_t sentence;

    if (argc != 2 || crfsuite_create_instance_from_file(argv[1], (void **)&model) ||
            model->get_tagger(model, &tagger) || model->get_labels(model, &labels) ||
            model->get_attrs(model, &attributes)) {
        fputs("usage: tag MODEL < FILE\n", stderr);
        return 1;
    }
    crfsuite_instance_init(&sentence);
    while (fgets(line, MAX_LINE, stdin) != NULL) {
        crfsuite_item_t item;
        char *name;

        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] == '\0') {
            tag(tagger, labels, &sentence);
            continue;
        }
        crfsuite_item_init(&item);
        for (name = strtok(line, "\t"); name != NULL; name = strtok(NULL, "\t")) {
            /* the model has no weights of attributes that it does not know */
            int number = attributes->to_id(attributes, name);
            crfsuite_attribute_t attribute;

            if (number >= 0) {
                crfsuite_attribute_set(&attribute, number, 1.0);
                crfsuite_item_append_attribute(&item, &attribute);
            }
        }
        crfsuite_instance_append(&sentence, &item, 0);
        crfsuite_item_finish(&item);
    }
    tag(tagger, labels, &sentence);
    crfsuite_instance_finish(&sentence);
    tagger->release(tagger);
    model->release(model);
    return 0;
}
