// Tests the file that is sent with an upgrade, and arguments that are not files.
#include "talosctl/upgrade/image-file.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/encoding.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::talosctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct ImageFileTest : testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::WaitScope& scope = io.waitScope;
  std::string folder;
  ImageFileTest() {
    char name[] = "/tmp/image-file-test-XXXXXX";
    KJ_ASSERT(mkdtemp(name) != nullptr);
    folder = name;
  }
  ~ImageFileTest() noexcept override { KJ_ASSERT(system(("rm -r " + folder).c_str()) == 0); }
  void put(const char* name, std::string text) {
    writeFileAtomically((folder + "/" + name).c_str(), kj::StringPtr(text.c_str()).asArray(), 0600);
  }
  kj::Own<ImageFile> open(const char* name) {
    auto path = folder + "/" + name;
    return ImageFile::open(io.provider->getTimer(), path.c_str()).wait(scope);
  }
};

}  // namespace

// Catches: bytes that are served from another position; a digest of other data; a signature that is
// not sent.
TEST_F(ImageFileTest, IsServedAsItIs) {
  put("i.tar", std::string(100'000, 'a') + "end");
  put("i.tar.sig", "signature");
  auto file = open("i.tar");
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<rpc::ImageFile>();
  std::vector<uint64_t> heard;
  file->fill(out, [&](uint64_t done, uint64_t size) {
    EXPECT_EQ(size, 100'003u);
    heard.push_back(done);
  });
  auto in = out.asReader();
  EXPECT_EQ(in.getSize(), 100'003u);
  EXPECT_EQ(kj::heapString(in.getSignature().asChars()), "signature");
  auto read = [&](uint64_t offset, uint32_t size) {
    auto request = in.getBytes().readRequest();
    request.setOffset(offset);
    request.setSize(size);
    return kj::heapString(request.send().wait(scope).getBytes().asChars());
  };
  EXPECT_EQ(read(99'999, 10), "aend");
  EXPECT_EQ(read(0, 100'000).size(), 64u << 10);
  EXPECT_EQ(read(200'000, 10), "");
  EXPECT_THAT(heard, ElementsAre(100'003));
}

// Catches: the digest of an empty or of half a file, because the file is read in parts of 1 MiB.
TEST_F(ImageFileTest, ItsDigestIsThatOfSha256sum) {
  put("a", std::string(3'000'000, 'a'));
  auto file = open("a");
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<rpc::ImageFile>();
  file->fill(out, [](uint64_t, uint64_t) {});
  EXPECT_EQ(kj::encodeHex(out.asReader().getSha256()),
            "2a152c894398719c0570f83fac34ac03a0f6e8e474b995c2403aa5434f7b9dd4");
}

// Catches: a library's error for a file that another process shortens while it is sent.
TEST_F(ImageFileTest, OneThatChangesMeanwhileIsSaidTo) {
  put("i.tar", "content");
  auto path = folder + "/i.tar";
  auto file = open("i.tar");
  KJ_SYSCALL(truncate(path.c_str(), 3));
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<rpc::ImageFile>();
  file->fill(out, [](uint64_t, uint64_t) {});
  auto request = out.asReader().getBytes().readRequest();
  request.setSize(7);
  std::string problem;
  request.send()
      .then([](auto&&) {},
            [&](kj::Exception&& e) {
              problem = kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
            })
      .wait(scope);
  EXPECT_EQ(problem, "FailedPrecondition: " + path + " was truncated while being read");
}

// Catches: a registry reference that is searched on this machine; a file that is requested from a
// registry because its name lacks a ./.
TEST_F(ImageFileTest, WhatIsAFile) {
  EXPECT_TRUE(isImageFile("./installer.tar"));
  EXPECT_TRUE(isImageFile("../installer.tar"));
  EXPECT_TRUE(isImageFile("/tmp/installer.tar"));
  EXPECT_FALSE(isImageFile("ghcr.io/talos-systems/installer:v0.9.1"));
  EXPECT_FALSE(isImageFile("https://example.com/installer.tar"));
  put("installer", "x");
  KJ_SYSCALL(chdir(folder.c_str()));
  auto problem = kj::runCatchingExceptions([] { isImageFile("installer"); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(problem)).cStr(), HasSubstr("write ./installer"));
  KJ_SYSCALL(chdir("/"));
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(kj::runCatchingExceptions([] {
                SentFile file("/tmp/there-is-no-such-file");
              }))).cStr(),
              HasSubstr("cannot read /tmp/there-is-no-such-file: No such file"));
}

}  // namespace talos::talosctl
