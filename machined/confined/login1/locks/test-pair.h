// The sockets that process 1 holds for login1.
#pragma once

#include <kj/debug.h>
#include <kj/io.h>
#include <sys/socket.h>

namespace talos::login1 {

struct TestPair {
  kj::AutoCloseFd keeping, kept;

  TestPair() {
    int ends[2];
    KJ_SYSCALL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
    keeping = kj::AutoCloseFd(ends[0]);
    kept = kj::AutoCloseFd(ends[1]);
  }
};

}  // namespace talos::login1
