// A program with the mark of a daemon that starts well and dies a moment later, for
// debug-replace-test.
#include <unistd.h>

int main() {
  constexpr unsigned kMicroseconds = 250'000;
  usleep(kMicroseconds);
  return 3;
}
