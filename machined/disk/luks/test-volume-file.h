// A volume in a file, which needs no device mapper.
#pragma once

#include <capnp/message.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"
#include "machined/disk/luks/luks-device.h"

namespace talos::luks {

struct VolumeFile : public ::testing::Test {
  static constexpr size_t kSize = 20u << 20;
  kj::String folder, path;
  capnp::MallocMessageBuilder message;

  VolumeFile() {
    char name[] = "/tmp/luks-test-XXXXXX";
    folder = kj::str(mkdtemp(name));
    path = kj::str(folder, "/device");
    kj::AutoCloseFd fd(::open(path.cStr(), O_RDWR | O_CREAT, 0600));
    EXPECT_EQ(ftruncate(fd, kSize), 0);
    // The cheapest derivation.
    auto derivation = message.initRoot<rpc::LuksDerivation>();
    derivation.setMemory(64);
    derivation.setPasses(4);
    derivation.setThreads(1);
  }
  ~VolumeFile() noexcept override { removeTree(folder); }

  static Key key(unsigned slot, kj::StringPtr passphrase) { return {slot, passphrase.asBytes()}; }
  Derivation derivation() { return message.getRoot<rpc::LuksDerivation>().asReader(); }
};

}  // namespace talos::luks
