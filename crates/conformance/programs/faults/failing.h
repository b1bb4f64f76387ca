/* How a program tells the failing storage what to do. */
#ifndef FAILING_H
#define FAILING_H

enum fault_op { FAULT_WRITE, FAULT_READ, FAULT_SYNC };

enum fault_how {
    FAULT_NONE,
    FAULT_FAIL,      /* call number `after`, from 1, fails with `error`; later ones too if it `stays` so */
    FAULT_SHORT,     /* every call moves a part of what was asked */
    FAULT_INTERRUPT, /* two calls of three are interrupted */
    FAULT_KILL,      /* the process is killed in call number `after` */
};

struct fault {
    enum fault_op op;
    enum fault_how how;
    int after, error, stays;
};

void fault_arm(const struct fault *);
int fault_disarm(void); /* how many calls went wrong since it was armed */

#endif
