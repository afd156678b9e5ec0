// Threads with their own namespaces, which end with the threads; for tests of the real kernel.
#pragma once

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <sched.h>

#include <thread>

namespace talos {

// Runs the body on a new thread; an exception fails the test.
template <typename F>
void onThread(F&& body) {
  kj::Maybe<kj::Exception> failure;
  std::thread([&] { failure = kj::runCatchingExceptions(body); }).join();
  KJ_IF_MAYBE (e, failure) ADD_FAILURE() << kj::str(*e).cStr();
}

// Does the same in a new network namespace, or in new ones of several kinds.
template <typename F>
void inNamespace(F&& body, int kinds = CLONE_NEWNET) {
  onThread([&] {
    KJ_SYSCALL(unshare(kinds), "these tests need root");
    body();
  });
}

}  // namespace talos
