// The program in the containers of the tests: writes numbered lines until SIGTERM. With the
// argument "calls" it first writes which actions it may take.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace {
volatile sig_atomic_t ended = 0;

void report(const char* what, long result) {
  printf("%s: %s\n", what, result < 0 ? strerror(errno) : "yes");
}

void tryCalls() {
  report("IP", socket(AF_INET, SOCK_STREAM, 0));
  report("IPv6", socket(AF_INET6, SOCK_STREAM, 0));
  report("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
  report("Unix", socket(AF_UNIX, SOCK_STREAM, 0));
  report("packets", socket(AF_PACKET, SOCK_RAW, 0));
  report("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
  int pair[2];
  report("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  report("namespaces", unshare(CLONE_NEWUTS));
  report("keys", syscall(SYS_keyctl, 0, -1, 0));
  pthread_t thread;
  errno = pthread_create(&thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
  report("threads", errno == 0 ? pthread_join(thread, nullptr) : -1);
  pid_t child = fork();
  if (child == 0) _exit(0);
  report("processes", child);
  if (child > 0) waitpid(child, nullptr, 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "calls") == 0) tryCalls();
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
