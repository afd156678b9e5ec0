// What runs in the containers of the tests: writes numbered lines until it is told to end.
#include <signal.h>
#include <stdio.h>
#include <time.h>

namespace {
volatile sig_atomic_t told = 0;
}

int main() {
  signal(SIGTERM, [](int) { told = 1; });
  for (int i = 0; told == 0; ++i) {
    printf("line %d\n", i);
    fflush(stdout);
    struct timespec pause = {0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
  printf("ended\n");
  return 7;
}
