#include "machined/etcd/etcd-run.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/testing/test-tree.h"

namespace talos::machined {
namespace {

struct Spec {
  explicit Spec(std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> arguments) {
    auto list = message.initRoot<rpc::EtcdSpecSpec>().initArguments(arguments.size());
    size_t i = 0;
    for (auto& [key, value] : arguments) {
      list[i].setKey(key);
      list[i++].setValue(value);
    }
  }
  rpc::EtcdSpecSpec::Builder build() { return message.getRoot<rpc::EtcdSpecSpec>(); }
  rpc::EtcdSpecSpec::Reader get() { return build().asReader(); }
  capnp::MallocMessageBuilder message;
};

kj::String commandLine(std::initializer_list<kj::StringPtr> words) {
  kj::Vector<char> text;
  for (auto word : words) {
    text.addAll(word);
    text.add('\0');
  }
  text.add('\0');
  return kj::String(text.releaseAsArray());
}

// Catches: etcd that is restarted for nothing, or runs on with arguments of yesterday.
TEST(EtcdRun, KnowsWhatRunsByItsCommandLine) {
  Spec spec({{"data-dir", "/var/lib/etcd"}, {"name", "master-1"}});
  struct Row {
    kj::String cmdline;
    kj::Maybe<bool> wanted;
  } rows[] = {
      {commandLine({"/usr/bin/etcd", "--data-dir=/var/lib/etcd", "--name=master-1"}), true},
      {commandLine({"/usr/local/bin/etcd", "--data-dir=/var/lib/etcd", "--name=master-1"}), true},
      {commandLine({"/usr/bin/etcd", "--data-dir=/var/lib/etcd", "--name=master-2"}), false},
      {commandLine({"/usr/bin/etcd", "--data-dir=/var/lib/etcd"}), false},
      {commandLine(
           {"/usr/bin/etcd", "--data-dir=/var/lib/etcd", "--name=master-1", "--debug=true"}),
       false},
      {commandLine({"/usr/libexec/talos/confine", "--uid=60", "--", "/usr/bin/etcd"}), nullptr},
      {kj::str(), nullptr},
  };
  for (auto& row : rows) EXPECT_TRUE(row.wanted == runsAsWanted(row.cmdline, spec.get()));
  spec.build().setWaitsFor("a cluster");
  for (auto i : {0, 5}) {
    EXPECT_FALSE(runsAsWanted(rows[i].cmdline, spec.get()).orDefault(true)) << "it is to stop";
  }
}

// Catches: keys that others can read, or that etcd cannot.
TEST(EtcdRun, FilesBelongToEtcdAlone) {
  TestTree tree;
  capnp::MallocMessageBuilder message;
  auto secrets = message.initRoot<rpc::EtcdSecretsSpec>();
  secrets.setCa("ca"_kj.asBytes());
  secrets.initServer().setKey("server key"_kj.asBytes());
  secrets.initEtcdPeer().setCrt("peer certificate"_kj.asBytes());
  auto folder = kj::str(tree.root, "/pki/etcd");
  for (int again = 0; again < 2; ++again) writeEtcdFiles(folder, secrets.asReader(), 60);
  struct stat info;
  for (auto [name, content] :
       {std::pair("ca.crt"_kj, "ca"_kj), std::pair("server.key"_kj, "server key"_kj),
        std::pair("peer.crt"_kj, "peer certificate"_kj), std::pair("peer.key"_kj, ""_kj)}) {
    auto path = kj::str(folder, "/", name);
    ASSERT_EQ(0, stat(path.cStr(), &info)) << path.cStr();
    EXPECT_EQ(60u, info.st_uid);
    EXPECT_EQ(0400u, info.st_mode & 07777);
    EXPECT_EQ(content, readFile(path));
  }
  ASSERT_EQ(0, stat(folder.cStr(), &info));
  EXPECT_EQ(0700u, info.st_mode & 07777);
  EXPECT_EQ(60u, info.st_uid);
  ASSERT_EQ(0, stat(tree.at("pki").cStr(), &info));
  EXPECT_EQ(0755u, info.st_mode & 07777) << "etcd could not get there";
}

// Catches: files that are written for nothing, a CA that changes unseen.
TEST(EtcdRun, OnlyWhatDiffersIsWritten) {
  TestTree tree;
  auto folder = tree.at("pki/etcd");
  capnp::MallocMessageBuilder message;
  auto secrets = message.initRoot<rpc::EtcdSecretsSpec>();
  secrets.setCa("ca"_kj.asBytes());
  secrets.initServer().setKey("one"_kj.asBytes());
  auto inode = [&](kj::StringPtr name) {
    struct stat info = {};
    KJ_SYSCALL(stat(kj::str(folder, "/", name).cStr(), &info));
    return info.st_ino;
  };
  EXPECT_FALSE(writeEtcdFiles(folder, secrets.asReader(), 60)) << "the first one is no change";
  auto ca = inode("ca.crt"), key = inode("server.key");
  secrets.getServer().setKey("two"_kj.asBytes());
  EXPECT_FALSE(writeEtcdFiles(folder, secrets.asReader(), 60));
  EXPECT_EQ(ca, inode("ca.crt"));
  EXPECT_NE(key, inode("server.key"));
  EXPECT_EQ("two", readFile(kj::str(folder, "/server.key")));
  secrets.setCa("another"_kj.asBytes());
  EXPECT_TRUE(writeEtcdFiles(folder, secrets.asReader(), 60));
}

}  // namespace
}  // namespace talos::machined
