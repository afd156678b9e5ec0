// The first process of a pod: holds its namespaces and reaps what is left in them.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number) {
  (void)number;
  _exit(0);
}
static void reap(int number) {
  (void)number;
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

int main(void) {
  struct sigaction ends = {.sa_handler = end};
  struct sigaction reaps = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  sigaction(SIGINT, &ends, 0);
  sigaction(SIGTERM, &ends, 0);
  sigaction(SIGCHLD, &reaps, 0);
  for (;;) pause();
}
