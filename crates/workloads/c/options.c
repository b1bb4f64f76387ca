#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workload.h"

void print_help(void) {
    puts("pario-workload: file accesses of scientific programs, by MPI-IO, every byte checked\n"
         "\n"
         "usage: mpiexec -n RANKS pario-workload NAME[,NAME…|all] [OPTION]…\n"
         "\n"
         "Writes the files of a workload and reads them back. It knows nothing about Pario: started as it\n"
         "is, it measures the MPI library's own MPI-IO; started by 'pario run' it measures Pario's.\n"
         "\n"
         "  --preset P           how large [small]\n"
         "  --steps N            how many steps, where the workload has steps\n"
         "  --dir D              the directory of the files [.]; pario:PARTITION/DIR works with Pario\n"
         "  --file F             the file itself, or the beginning of the files' names\n"
         "  --hint KEY=VALUE     a hint for all files; may be repeated\n"
         "  --write-only         do not read back; keeps the files\n"
         "  --read-only          read and check what another run has written and kept, with the same seed\n"
         "  --keep               do not remove the files at the end\n"
         "  --overwrite          write over old files instead of removing them first\n"
         "  --sync               MPI_File_sync before closing a file that was written\n"
         "  --independent        independent calls where the workload would make collective ones\n"
         "  --posix              no MPI-IO: pwrite or pread for each piece\n"
         "  --compute-ms N       keep the processor busy for so long before each step\n"
         "  --delay-us N         lengthen each read and write call by so much, to try out measuring tools\n"
         "  --seed N             what the contents start from [1]\n"
         "  --json FILE|-        results as a line of JSON for each workload\n"
         "  --describe           do nothing but print, as JSON, what would be done\n"
         "  --as-ranks N         with --describe: by so many ranks\n"
         "  --list               the workloads and their presets as JSON\n"
         "\n"
         "Exit code: 0 all well; 1 an error; 2 wrong arguments; 3 a byte read was not the byte written.\n"
         "\n"
         "Workloads and presets:");
    for (int i = 0; workloads[i]; i++) {
        printf("\n  %s: %s\n", workloads[i]->name, workloads[i]->about);
        for (const struct preset *preset = workloads[i]->presets; preset->name; preset++)
            printf("    %-10s %s\n", preset->name, preset->about);
    }
    puts("\nExamples:\n"
         "  mpiexec -n 9 pario-workload btio --preset bt-A --dir /scratch/me\n"
         "  pario run -n 9 -- pario-workload btio --preset bt-A --dir /scratch/me\n"
         "  pario-workload btio --preset bt-C --describe --as-ranks 64");
}

static bool number(const char *text, double most, double *value) {
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    return errno == 0 && end != text && *end == '\0' && *value >= 0 && *value <= most;
}

/* One option that takes a value. */
static bool take(struct options *o, const char *name, char *value, int *hints) {
    double n = 0;
    if (strcmp(name, "--preset") == 0) o->preset = value;
    else if (strcmp(name, "--dir") == 0) o->dir = value;
    else if (strcmp(name, "--file") == 0) o->file = value;
    else if (strcmp(name, "--json") == 0) o->json = value;
    else if (strcmp(name, "--compute-ms") == 0) return number(value, 1e7, &o->compute_ms);
    else if (strcmp(name, "--delay-us") == 0) return number(value, 1e9, &o->delay_us);
    else if (strcmp(name, "--steps") == 0 && number(value, 1e6, &n) && n >= 1) o->steps = (int)n;
    else if (strcmp(name, "--as-ranks") == 0 && number(value, 1e7, &n) && n >= 1) o->as_ranks = (int)n;
    else if (strcmp(name, "--seed") == 0 && number(value, 9e15, &n)) o->seed = (uint64_t)n;
    else if (strcmp(name, "--hint") == 0 && strchr(value, '=') && *hints < MOST_HINTS) {
        char *equals = strchr(value, '=');
        *equals = '\0';
        o->hints[(*hints)++] = (struct hint){value, equals + 1};
    } else return false;
    return true;
}

static bool *flag(struct options *o, const char *name) {
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {
        {"--write-only", &o->write_only}, {"--read-only", &o->read_only},     {"--keep", &o->keep},
        {"--overwrite", &o->overwrite},   {"--sync", &o->sync},               {"--posix", &o->posix},
        {"--describe", &o->describe},     {"--independent", &o->independent}, {"--list", &o->list},
        {"--help", &o->help},             {"-h", &o->help},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(flags[i].name, name) == 0) return flags[i].flag;
    return NULL;
}

static bool takes_value(const char *name) {
    static const char *const names[] = {"--preset",   "--dir",      "--file",  "--json",     "--compute-ms",
                                        "--delay-us", "--steps",    "--seed",  "--as-ranks", "--hint"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

bool read_options(int argc, char **argv, struct options *o, char *why, int room) {
    *o = (struct options){.preset = "small", .seed = 1};
    int hints = 0;
    for (int i = 1; i < argc; i++) {
        bool *set = flag(o, argv[i]);
        if (set) {
            *set = true;
        } else if (takes_value(argv[i])) {
            if (i + 1 == argc) return snprintf(why, (size_t)room, "%s needs a value", argv[i]), false;
            const char *name = argv[i++];
            if (!take(o, name, argv[i], &hints))
                return snprintf(why, (size_t)room, "%s: '%s' is not possible", name, argv[i]), false;
        } else if (argv[i][0] == '-' || o->names) {
            return snprintf(why, (size_t)room, "'%s' is not known (--help says what is)", argv[i]), false;
        } else {
            o->names = argv[i];
        }
    }
    const char *wrong = o->help || o->list              ? NULL
                        : !o->names                     ? "which workload? (--help lists them)"
                        : o->write_only && o->read_only ? "--write-only and --read-only exclude each other"
                        : o->dir && o->file             ? "--dir and --file exclude each other"
                        : o->as_ranks && !o->describe   ? "--as-ranks goes with --describe"
                                                        : NULL;
    if (wrong) snprintf(why, (size_t)room, "%s", wrong);
    return !wrong;
}
