// An image registry for tests, Debian's docker-registry, and a host for it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/harness/process.h"

namespace talos::harness {

class Registry {
 public:
  // Keeps its files below `folder`. With `remote`, a URL, it is a pull-through cache of this
  // registry. Throws if it does not listen within 30 s. With `certificate`, a file that holds the
  // key as well, it uses TLS.
  Registry(const std::string& folder, const std::string& address, const std::string& remote = "",
           const std::string& certificate = "");

  // Waits up to 10 s for a request with this text; the log has a line for each request.
  bool wasAsked(const std::string& part);
  void stop() { process.reset(); }

 private:
  // Path of its output: while the test does not read it, the output is more than a pipe holds.
  std::string log;
  std::unique_ptr<Background> process;
};

// The host is a network namespace of this process: listeners on its loopback do not meet those of
// other tests.
class RegistryHost : public ::testing::Test {
 protected:
  std::string folder;  // gone with the test

  ~RegistryHost() noexcept override {}
  void SetUp() override;
  void TearDown() override;
};

}  // namespace talos::harness
