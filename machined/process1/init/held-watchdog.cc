#include "machined/process1/init/held-watchdog.h"

#include <errno.h>
#include <linux/watchdog.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace talos::process1 {
namespace {

int writeLetter(int fd, char letter) {
  return write(fd, &letter, 1) == 1 ? 0 : errno;
}

}  // namespace

int feedWatchdog(int fd) {
  return writeLetter(fd, '\0');
}

void feedUntilRestart(int fd, int seconds) {
  ioctl(fd, WDIOC_SETTIMEOUT, &seconds);
  feedWatchdog(fd);
}

void stopWatchdog(int fd) {
  writeLetter(fd, 'V');
}

}  // namespace talos::process1
