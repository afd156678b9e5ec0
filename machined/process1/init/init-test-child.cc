// The program that the tests of process 1 start as the brain and as children. Static and without
// any library, because it runs in an empty root.
//   (no argument)      the brain: hands its descriptor 3 to the test, then waits to be killed
//   exit N             ends with that code
//   wait               reports to the test, then waits to be killed
//   stubborn           the same, ignores SIGTERM
//   orphan             leaves a grandchild that does `wait`, and ends
//   show               prints its arguments, environment and open descriptors
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace {

// Connects to the test's abstract socket, hands over a descriptor or nothing, and keeps the
// connection.
void report(char what, int fd) {
  const char* name = getenv("TALOS_TEST_SOCKET");
  if (name == nullptr) _exit(101);
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path + 1, name, sizeof(address.sun_path) - 2);
  int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  socklen_t size =
      static_cast<socklen_t>(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  if (connect(s, reinterpret_cast<struct sockaddr*>(&address), size) != 0) _exit(102);
  struct iovec io = {&what, 1};
  struct msghdr message = {};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    auto* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
  }
  if (sendmsg(s, &message, MSG_NOSIGNAL) != 1) _exit(103);
}

[[noreturn]] void waitForEver() {
  for (;;) pause();
}

void show(int argc, char** argv, char** environment) {
  for (int i = 0; i < argc; ++i) printf("arg %s\n", argv[i]);
  for (char** e = environment; *e != nullptr; ++e) printf("env %s\n", *e);
  for (int fd = 0; fd < 1024; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) printf("fd %d\n", fd);
  }
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, nullptr, &blocked);
  printf("blocked %d\n", sigismember(&blocked, SIGTERM));
  for (int number = 1; number <= 64; ++number) {
    struct sigaction action = {};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
      printf("ignored %d\n", number);
    }
  }
  fflush(stdout);
}

}  // namespace

int main(int argc, char** argv, char** environment) {
  if (argc < 2) {
    report('b', 3);
    waitForEver();
  }
  if (strcmp(argv[1], "exit") == 0) return atoi(argv[2]);
  if (strcmp(argv[1], "show") == 0) {
    show(argc, argv, environment);
    return 0;
  }
  if (strcmp(argv[1], "stubborn") == 0) signal(SIGTERM, SIG_IGN);
  if (strcmp(argv[1], "orphan") == 0 && fork() != 0) return 0;
  report('c', -1);
  waitForEver();
}
