// Tests the users' chapter "Managing PKI", on files, checked with openssl.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/testing/printing.h"
#include "common/tls/pki.h"
#include "talosctl/cli/run-command.h"
#include "talosctl/cli/test-console.h"
#include "talosctl/commands/all-commands.h"
#include "tests/harness/process.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct GenPki : public ::testing::Test {
  ConsoleFixture test;
  kj::Own<Command> root = newRoot();
  std::string folder;
  GenPki() {
    addCommands(*root);
    char path[] = "/tmp/talosctl-pki-XXXXXX";
    folder = mkdtemp(path);
    KJ_SYSCALL(chdir(path));
  }
  ~GenPki() noexcept override {
    (void)!chdir("/");
    removeTree(folder.c_str());
  }
  int run(std::initializer_list<kj::StringPtr> words) {
    return talosctl::run(test.deps, *root, kj::arrayPtr(words.begin(), words.size()),
                         kj::NEVER_DONE)
        .wait(test.io.waitScope);
  }
  std::string err() { return test.console.takeErr().cStr(); }
  std::string openssl(std::vector<std::string> words) {
    words.insert(words.begin(), "openssl");
    auto result = harness::run(words);
    return result.out + result.err;
  }
  mode_t mode(const char* path) {
    struct stat s = {};
    stat(path, &s);
    return s.st_mode & 07777;
  }
};

TEST_F(GenPki, TheChapterLineByLine) {
  ASSERT_EQ(run({"gen", "ca", "--organization", "ca"}), 0) << err();
  // Generates an administrator key pair.
  ASSERT_EQ(run({"gen", "key", "--name", "admin"}), 0) << err();
  ASSERT_EQ(run({"gen", "csr", "--key", "admin.key", "--ip", "127.0.0.1"}), 0) << err();
  ASSERT_EQ(run({"gen", "crt", "--ca", "ca", "--csr", "admin.csr", "--name", "admin"}), 0) << err();
  auto first = readFile("admin.crt");
  pki::checkPair(first, readFile("admin.key"));
  auto info = pki::inspect(first);
  ASSERT_EQ(info.organizations.size(), 1u);
  EXPECT_EQ(info.organizations[0], "os:admin");
  ASSERT_EQ(info.addresses.size(), 1u);
  EXPECT_EQ(info.addresses[0], "127.0.0.1");
  EXPECT_EQ((info.notAfter - info.notBefore) / kj::HOURS, 24);
  // Renews it with the same two commands over the existing files.
  ASSERT_EQ(run({"gen", "csr", "--key", "admin.key", "--ip", "127.0.0.1"}), 0) << err();
  ASSERT_EQ(run({"gen", "crt", "--ca", "ca", "--csr", "admin.csr", "--name", "admin"}), 0) << err();
  auto second = readFile("admin.crt");
  EXPECT_NE(first, second);
  pki::checkPair(second, readFile("admin.key"));
  for (auto file : {"ca.crt", "ca.key", "ca.sha256", "admin.key", "admin.csr", "admin.crt"}) {
    EXPECT_EQ(mode(file), 0600) << file;
  }
}

TEST_F(GenPki, OpensslAgrees) {
  for (bool rsa : {false, true}) {
    ASSERT_EQ(rsa ? run({"gen", "ca", "--organization", "ca", "--rsa", "--force"})
                  : run({"gen", "ca", "--organization", "ca"}),
              0)
        << err();
    ASSERT_EQ(run({"gen", "key", "--name", "u", "--force"}), 0) << err();
    ASSERT_EQ(run({"gen", "csr", "--key", "u.key", "--ip", "::1", "--roles", "os:reader"}), 0);
    ASSERT_EQ(run({"gen", "crt", "--ca", "ca", "--csr", "u.csr", "--name", "u", "--hours", "48"}),
              0)
        << err();
    EXPECT_THAT(openssl({"verify", "-CAfile", "ca.crt", "u.crt"}), HasSubstr("u.crt: OK"));
    EXPECT_THAT(openssl({"req", "-in", "u.csr", "-noout", "-verify"}), HasSubstr("OK"));
    auto text = openssl({"x509", "-in", "u.crt", "-noout", "-text"});
    EXPECT_THAT(text, HasSubstr("O=os:reader"));
    EXPECT_THAT(text, HasSubstr("IP Address:0:0:0:0:0:0:0:1"));
    EXPECT_THAT(text, HasSubstr("Digital Signature"));
    EXPECT_THAT(text, HasSubstr("TLS Web Client Authentication"));
    EXPECT_THAT(text, Not(HasSubstr("CA:TRUE")));
    auto authority = openssl({"x509", "-in", "ca.crt", "-noout", "-text"});
    EXPECT_THAT(authority, HasSubstr("CA:TRUE"));
    EXPECT_THAT(authority, HasSubstr(rsa ? "sha512WithRSAEncryption" : "ED25519"));
  }
  // CAs created by openssl are accepted, too.
  openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
           "-keyout", "ext.key", "-out", "ext.crt", "-subj", "/O=ext", "-days", "2"});
  ASSERT_EQ(run({"gen", "crt", "--ca", "ext", "--csr", "u.csr", "--name", "x"}), 0) << err();
  EXPECT_THAT(openssl({"verify", "-CAfile", "ext.crt", "x.crt"}), HasSubstr("x.crt: OK"));
}

// Catches: a part of a request that its certificate lacks, a given lifetime or role that is
// ignored.
TEST_F(GenPki, ACertificateIsWhatTheRequestAndTheFlagsSay) {
  ASSERT_EQ(run({"gen", "ca", "--organization", "ca", "--hours", "96"}), 0) << err();
  auto authority = pki::inspect(readFile("ca.crt"));
  EXPECT_EQ((authority.notAfter - authority.notBefore) / kj::HOURS, 96);
  openssl({"req", "-new", "-newkey", "ed25519", "-nodes", "-keyout", "u.key", "-out", "u.csr",
           "-subj", "/O=os:admin/O=staff/CN=node", "-addext",
           "subjectAltName=DNS:a.example.org,IP:10.0.0.1"});
  ASSERT_EQ(run({"gen", "crt", "--ca", "ca", "--csr", "u.csr", "--name", "u", "--hours", "48"}), 0)
      << err();
  auto info = pki::inspect(readFile("u.crt"));
  EXPECT_EQ(info.commonName, "node");
  ASSERT_EQ(info.organizations.size(), 2u);
  EXPECT_EQ(info.organizations[1], "staff");
  ASSERT_EQ(info.dnsNames.size(), 1u);
  EXPECT_EQ(info.dnsNames[0], "a.example.org");
  EXPECT_EQ((info.notAfter - info.notBefore) / kj::HOURS, 48);
  ASSERT_EQ(
      run({"gen", "crt", "--ca", "ca", "--csr", "u.csr", "--name", "r", "--roles", "os:reader"}), 0)
      << err();
  auto reader = pki::inspect(readFile("r.crt"));
  ASSERT_EQ(reader.organizations.size(), 1u);
  EXPECT_EQ(reader.organizations[0], "os:reader");
}

TEST_F(GenPki, TheRequestIsBesideItsKey) {
  ASSERT_EQ(run({"gen", "key", "--name", "u"}), 0) << err();
  makeDirectories("a.b");
  rename("u.key", "a.b/u");
  ASSERT_EQ(run({"gen", "csr", "--key", "a.b/u", "--ip", "127.0.0.1"}), 0) << err();
  EXPECT_EQ(access("a.b/u.csr", F_OK), 0);
}

TEST_F(GenPki, TheHashIsThatOfThePublicKey) {
  ASSERT_EQ(run({"gen", "ca", "--organization", "o"}), 0) << err();
  auto expected =
      harness::run({"sh", "-c",
                    "openssl x509 -in o.crt -noout -pubkey | openssl pkey -pubin -outform der"
                    " | sha256sum | cut -d' ' -f1"});
  EXPECT_EQ(std::string(readFile("o.sha256").cStr()), "sha256:" + expected.out);
}

TEST_F(GenPki, KeypairSignsItself) {
  ASSERT_EQ(run({"gen", "keypair", "--organization", "o", "--ip", "10.0.0.1"}), 0) << err();
  auto info = pki::inspect(readFile("o.crt"));
  EXPECT_TRUE(info.authority);
  ASSERT_EQ(info.addresses.size(), 1u);
  EXPECT_EQ(info.addresses[0], "10.0.0.1");
  EXPECT_EQ((info.notAfter - info.notBefore) / kj::HOURS, 24);
}

// Catches: a key that is lost when a command is repeated, or files outside the folder.
TEST_F(GenPki, MistakesAreNamedAndChangeNothing) {
  ASSERT_EQ(run({"gen", "key", "--name", "admin"}), 0);
  ASSERT_EQ(run({"gen", "ca", "--organization", "ca"}), 0);
  ASSERT_EQ(run({"gen", "ca", "--organization", "other"}), 0);
  ASSERT_EQ(run({"gen", "csr", "--key", "admin.key", "--ip", "127.0.0.1"}), 0);
  rename("other.key", "mixed.key");
  ASSERT_EQ(harness::run({"cp", "ca.crt", "mixed.crt"}).status, 0);
  writeFileAtomically("broken.csr", kj::StringPtr("-----BEGIN CERTIFICATE REQUEST-----\nx\n"),
                      0600);
  auto key = readFile("admin.key"), authority = readFile("ca.crt");
  ASSERT_EQ(harness::run({"cp", "admin.key", "own.csr"}).status, 0);
  err();
  struct Row {
    std::initializer_list<kj::StringPtr> words;
    const char* says;
  };
  for (auto& row : std::initializer_list<Row>{
           {{"gen", "key", "--name", "admin"}, "admin.key\" already exists"},
           {{"gen", "ca", "--organization", "ca"}, "ca.key\" already exists"},
           {{"gen", "keypair", "--organization", "ca"}, "ca.key\" already exists"},
           {{"gen", "ca", "--organization", "n", "--hours", "876601"},
            "--hours: must be 1 to 876600"},
           {{"gen", "key", "--name", "../admin"}, "not a valid name"},
           {{"gen", "key", "--name", ""}, "not a valid name"},
           {{"gen", "csr", "--key", "none.key", "--ip", "127.0.0.1"}, "none.key"},
           {{"gen", "csr", "--key", "own.csr", "--ip", "127.0.0.1"}, "own.csr: the request would"},
           {{"gen", "crt", "--ca", "ca", "--csr", "admin.csr", "--name", "ca"}, "ca.crt: the cert"},
           {{"gen", "crt", "--ca", "./ca", "--csr", "admin.csr", "--name", "ca"}, "ca.crt: the c"},
           {{"gen", "csr", "--key", "ca.crt", "--ip", "127.0.0.1"}, "ca.crt: "},
           {{"gen", "csr", "--key", "admin.key", "--ip", "127.0.0"}, "not a valid IP address"},
           {{"gen", "csr", "--key", "admin.key", "--ip", "::1", "--roles", "admin"}, "os:admin"},
           {{"gen", "crt", "--ca", "ca", "--csr", "broken.csr", "--name", "x"}, "broken.csr: "},
           {{"gen", "crt", "--ca", "mixed", "--csr", "admin.csr", "--name", "x"}, "mixed.key: "},
           {{"gen", "crt", "--ca", "none", "--csr", "admin.csr", "--name", "x"}, "none.crt"},
           {{"gen", "crt", "--ca", "ca", "--csr", "admin.csr", "--name", "x", "--hours", "0"},
            "--hours"}}) {
    EXPECT_EQ(run(row.words), 1) << row.says;
    EXPECT_THAT(err(), HasSubstr(row.says));
  }
  EXPECT_EQ(readFile("admin.key"), key);
  EXPECT_EQ(readFile("own.csr"), key);
  EXPECT_EQ(readFile("ca.crt"), authority);
  EXPECT_NE(access("x.crt", F_OK), 0);
}

}  // namespace
}  // namespace talos::talosctl
