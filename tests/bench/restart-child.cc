// The service of restart-bench: reports when it runs, by the clock that all processes share, then
// waits to be killed. It uses no library, so that only its supervisor is measured. Environment:
// RESTART_BENCH, the name of an abstract datagram socket.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

int main() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t nanoseconds = now.tv_sec * 1'000'000'000 + now.tv_nsec;
  const char* name = getenv("RESTART_BENCH");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name == nullptr || strlen(name) > sizeof address.sun_path - 2) return 101;
  memcpy(address.sun_path + 1, name, strlen(name));  // an abstract name: no zero at its end
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + strlen(name));
  int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (sendto(s, &nanoseconds, sizeof nanoseconds, 0, reinterpret_cast<sockaddr*>(&address), size) !=
      sizeof nanoseconds) {
    return 102;
  }
  for (;;) pause();
}
