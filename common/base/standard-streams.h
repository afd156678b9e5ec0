// Descriptors 0 to 2 of a program that was started with some of them closed (`talosctl … >&-`, a
// careless cron). Without this the next file that the program opens gets such a number: the event
// loop's epoll becomes stdout, and a result is written into it or waits for ever.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace talos {

// Opens /dev/null on each of descriptors 0 to 2 that is closed, and leaves the open ones as they
// are. Children inherit them. Where /dev/null is missing, the number is taken by a descriptor of
// `/` that can neither be read nor written. It makes only system calls; call it before anything
// opens a file.
inline void openClosedStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The kernel gives the lowest free number, which is `fd`.
    if (open("/dev/null", O_RDWR) < 0) (void)!open("/", O_PATH);
  }
}

}  // namespace talos
