// The program in the containers of the tests: writes numbered lines until SIGTERM.
#include <signal.h>
#include <stdio.h>
#include <time.h>

namespace {
volatile sig_atomic_t ended = 0;
}

int main() {
  signal(SIGTERM, [](int) { ended = 1; });
  for (int i = 0; ended == 0; ++i) {
    printf("line %d\n", i);
    fflush(stdout);
    struct timespec pause = {0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
  printf("ended\n");
  return 7;
}
