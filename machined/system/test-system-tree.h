// A directory tree that stands for a machine's root, and mounts that are only recorded.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <string>

#include "common/base/file.h"
#include "machined/system/system-mounts.h"

namespace talos::machined {

struct TestSystemTree {
  kj::String root;

  TestSystemTree() {
    char name[] = "/tmp/effects-test-XXXXXX";
    root = kj::str(mkdtemp(name));
    for (auto folder : {"/var", "/etc/ssl/certs", "/etc/kubernetes", "/system/etc"})
      makeDirectories(kj::str(root, folder));
  }
  ~TestSystemTree() noexcept(false) { removeTree(root); }

  kj::String path(kj::StringPtr relative) const { return kj::str(root, relative); }
  void put(kj::StringPtr relative, kj::StringPtr content, mode_t mode = 0644) {
    writeFileAtomically(path(relative), content.asArray(), mode);
  }
  std::string get(kj::StringPtr relative) const {
    KJ_IF_MAYBE (text, tryReadFile(path(relative))) return text->cStr();
    return "(none)";
  }
  unsigned mode(kj::StringPtr relative) const {
    struct stat found;
    if (stat(path(relative).cStr(), &found) != 0) return 0;
    return found.st_mode & 07777;
  }
  void link(kj::StringPtr target, kj::StringPtr relative) {
    EXPECT_EQ(0, symlink(target.cStr(), path(relative).cStr()));
  }
};

class FakeMounts final : public Mounts {
 public:
  std::map<std::string, std::string> binds;  // by target
  std::map<std::string, std::string> others;
  unsigned calls = 0;
  bool refuse = false;

  bool isMountPoint(kj::StringPtr path) const override {
    return binds.count(path.cStr()) > 0 || others.count(path.cStr()) > 0;
  }
  void tmpfs(kj::StringPtr target, kj::StringPtr options) override {
    change();
    others[target.cStr()] = options.cStr();
  }
  void overlay(kj::StringPtr lower, kj::StringPtr upper, kj::StringPtr work,
               kj::StringPtr target) override {
    change();
    others[target.cStr()] = upper.cStr();
  }
  void overlayReadOnly(kj::StringPtr top, kj::StringPtr target,
                       kj::ArrayPtr<const kj::String> below) override {
    change();
    others[target.cStr()] = top.cStr();
    for (auto& path : below) EXPECT_TRUE(isMountPoint(path)) << path.cStr();
  }
  void bindReadOnly(kj::StringPtr source, kj::StringPtr target) override {
    change();
    EXPECT_EQ(0u, binds.count(target.cStr())) << "a mount on a mount";
    binds[target.cStr()] = source.cStr();
  }
  void unmount(kj::StringPtr target) override {
    change();
    EXPECT_EQ(1u, binds.erase(target.cStr()));
  }
  kj::AutoCloseFd withoutMounts(int directory) const override {
    return kj::AutoCloseFd(fcntl(directory, F_DUPFD_CLOEXEC, 0));
  }

 private:
  void change() {
    ++calls;
    if (refuse) KJ_FAIL_REQUIRE("refused");
  }
};

}  // namespace talos::machined
