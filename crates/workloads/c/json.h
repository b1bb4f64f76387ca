/* Just enough to print JSON. */
#ifndef JSON_H
#define JSON_H

#include <stdio.h>

void json_text(FILE *to, const char *text);

#endif
