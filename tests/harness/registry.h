// An image registry for tests, Debian's docker-registry, and a host for it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/harness/process.h"

namespace talos::harness {

class Registry {
 public:
  // Keeps its files below `folder`. With `remote`, a URL, it is a pull-through cache of that.
  // Throws when it does not listen within 30 s.
  // With `certificate`, a file that has the key as well, it speaks TLS.
  Registry(const std::string& folder, const std::string& address, const std::string& remote = "",
           const std::string& certificate = "");

  // Within 10 s; its log has a line for each request.
  bool wasAsked(const std::string& part);
  void stop() { process.reset(); }

 private:
  // Its lines: more than a pipe takes that nobody reads for a while.
  std::string log;
  std::unique_ptr<Background> process;
};

// The host is a network namespace of this process: what listens on its loopback meets nobody
// else's.
class RegistryHost : public ::testing::Test {
 protected:
  std::string folder;  // gone with the test

  ~RegistryHost() noexcept override {}
  void SetUp() override;
  void TearDown() override;
};

}  // namespace talos::harness
