// Network namespaces of the tests: each made by a thread that lives for one test, and kept by a
// descriptor.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <unistd.h>

#include "common/netlink/netlink.h"
#include "common/testing/test-ip.h"
#include "common/testing/test-namespace.h"

namespace talos {

class Namespace {
 public:
  Namespace() {
    inNamespace([this] {
      int raw;
      KJ_SYSCALL(raw = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
      fd = kj::AutoCloseFd(raw);
    });
  }
  KJ_DISALLOW_COPY(Namespace);

  // Runs the function on a thread inside of the namespace; an exception fails the test.
  template <typename F>
  void run(F&& body) {
    onThread([&] {
      KJ_SYSCALL(setns(fd, CLONE_NEWNET));
      body();
    });
  }

  int descriptor() const { return fd; }

 private:
  kj::AutoCloseFd fd;
};

// Returns the error of a change; 0 if there was no error.
inline int codeOf(netlink::Kernel& kernel, netlink::Change change, kj::String* words = nullptr) {
  auto failures = kernel.apply(kj::arrayPtr(&change, 1));
  KJ_IF_MAYBE (failure, failures[0]) {
    if (words != nullptr) *words = kj::str(failure->message);
    return failure->code;
  }
  return 0;
}

}  // namespace talos
