/* A program that knows nothing of MPI and loads the plug-in into a scope of its own. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *plugin = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) return fprintf(stderr, "%s\n", dlerror()), 1;
    return ((int (*)(void)) dlsym(plugin, "plugin"))();
}
