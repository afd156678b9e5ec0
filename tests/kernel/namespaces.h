// Network namespaces of the tests: made by a thread that lives for one test, kept by a descriptor.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "common/netlink.h"

namespace talos {

class Namespace {
 public:
  Namespace() {
    std::thread([this] {
      KJ_SYSCALL(unshare(CLONE_NEWNET));
      int raw;
      KJ_SYSCALL(raw = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
      fd = kj::AutoCloseFd(raw);
    }).join();
  }
  KJ_DISALLOW_COPY(Namespace);

  // Runs it on a thread that is inside; an exception fails the test.
  template <typename F>
  void run(F&& body) {
    kj::Maybe<kj::Exception> failure;
    std::thread([&] {
      failure = kj::runCatchingExceptions([&] {
        KJ_SYSCALL(setns(fd, CLONE_NEWNET));
        body();
      });
    }).join();
    KJ_IF_MAYBE (e, failure) ADD_FAILURE() << kj::str(*e).cStr();
  }

  int descriptor() const { return fd; }

 private:
  kj::AutoCloseFd fd;
};

inline Prefix prefix(kj::StringPtr text) {
  return KJ_ASSERT_NONNULL(Prefix::parse(text));
}
inline Ip ip(kj::StringPtr text) {
  return KJ_ASSERT_NONNULL(Ip::parse(text));
}

// The error of a change; 0: none.
inline int codeOf(netlink::Kernel& kernel, netlink::Change change, kj::String* words = nullptr) {
  auto failures = kernel.apply(kj::arrayPtr(&change, 1));
  KJ_IF_MAYBE (failure, failures[0]) {
    if (words != nullptr) *words = kj::str(failure->message);
    return failure->code;
  }
  return 0;
}

}  // namespace talos
