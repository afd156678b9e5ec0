// The program in its wrapper, on a file: everything that needs no device mapper.
#include "machined/disk/encryption/luks-client.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "common/base/file.h"

extern char** environ;

namespace talos::machined {
namespace {

constexpr kj::StringPtr kBuild = TALOS_PROGRAMS ""_kj;

// Seals to a text with the endpoint, and returns a similar one.
struct EchoKms final : Kms {
  static kj::StringPtr caller(const KmsServer& server) {
    return server.beforeConfig ? " early "_kj : " "_kj;
  }
  kj::Promise<kj::String> seal(KmsServer server, kj::ArrayPtr<const kj::byte> secret) override {
    return kj::str(server.endpoint, caller(server), secret.asChars());
  }
  kj::Promise<kj::Array<kj::byte>> unseal(KmsServer server, kj::StringPtr userData) override {
    return kj::heapArray<kj::byte>(kj::str(server.endpoint, caller(server), userData).asBytes());
  }
};

struct LuksTest : testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  kj::String confine = kj::str(kBuild, "/confine"), program = kj::str(kBuild, "/luks");
  Derivation quick{64, 4, 2};
  EchoKms kms;
  RealLuks luks{io, uv, [] { return Modules::ofRunningKernel(); }, kms, quick, confine, program};
  kj::String folder, path;

  LuksTest() {
    char name[] = "/tmp/luks-client-test-XXXXXX";
    folder = kj::str(mkdtemp(name));
    path = kj::str(folder, "/device");
    kj::AutoCloseFd fd(::open(path.cStr(), O_RDWR | O_CREAT, 0600));
    EXPECT_EQ(ftruncate(fd, 20 << 20), 0);
  }
  ~LuksTest() noexcept override { removeTree(folder); }

  static VolumeKey key(unsigned slot, kj::StringPtr passphrase) {
    return {slot, KeyKind::kStatic, kj::heapArray<kj::byte>(passphrase.asBytes())};
  }
  static VolumeSettings settings(unsigned slot, kj::StringPtr passphrase) {
    VolumeSettings result;
    result.label = kj::str("STATE");
    result.keys.add(key(slot, passphrase));
    return result;
  }
};

// Catches: a wrapper that removes something that the program needs (threads, memory, its file), a
// field that is lost on the way, a failure without its message.
TEST_F(LuksTest, WorksBehindItsWrapper) {
  auto& scope = io.waitScope;
  EXPECT_EQ(luks.inspect(path).wait(scope).content, Luks::Content::EMPTY);
  auto one = settings(4, "one");
  luks.format(path, one).wait(scope);
  auto found = luks.inspect(path).wait(scope);
  EXPECT_EQ(found.content, Luks::Content::LUKS);
  ASSERT_EQ(found.slots.size(), 1u);
  EXPECT_EQ(found.slots[0], 4u);
  EXPECT_EQ(found.problem, "");
  auto opened = KJ_ASSERT_NONNULL(luks.open(path, "", one).wait(scope));
  EXPECT_EQ(opened.slot, 4u);
  EXPECT_EQ(opened.key, 0u);
  EXPECT_TRUE(opened.fresh);
  EXPECT_TRUE(luks.open(path, "", settings(4, "wrong")).wait(scope) == nullptr);

  auto two = key(2, "two");
  luks.add(path, {two, 2}, {one.keys[0], 4}).wait(scope);
  auto tests = luks.test(path, kj::arrayPtr(&two, 1)).wait(scope);
  EXPECT_TRUE(tests[0]);
  luks.remove(path, 4, {two, 2}).wait(scope);
  luks.settle(path).wait(scope);
  EXPECT_FALSE(KJ_ASSERT_NONNULL(luks.open(path, "", settings(2, "two")).wait(scope)).fresh);

  auto failure = kj::runCatchingExceptions([&]() { luks.format(path, one).wait(scope); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)), kj::str(path, " is not empty"));
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kFailedPrecondition);

  kj::AutoCloseFd fd(::open(path.cStr(), O_RDWR | O_CLOEXEC));
  auto zeros = kj::heapArray<char>(256u << 10);  // both headers; the slots follow
  memset(zeros.begin(), 0, zeros.size());
  ASSERT_EQ(pwrite(fd, zeros.begin(), zeros.size(), 0), ssize_t(zeros.size()));
  auto damaged = luks.inspect(path).wait(scope);
  EXPECT_EQ(damaged.content, Luks::Content::OTHER);
  EXPECT_TRUE(damaged.problem.startsWith("begins with zeros and has data behind them"))
      << damaged.problem.cStr();
}

// Catches: a list of all 32 slots that cannot be made, is opened by its last key only, or takes
// longer than the program's timeout.
TEST_F(LuksTest, HasRoomForAllSlots) {
  auto& scope = io.waitScope;
  VolumeSettings all;
  all.label = kj::str("EPHEMERAL");
  for (unsigned i = 0; i < kKeySlots; ++i) all.keys.add(key(i, kj::str("key", i)));
  luks.format(path, all).wait(scope);
  EXPECT_EQ(luks.inspect(path).wait(scope).slots.size(), 32u);
  auto fit = luks.test(path, all.keys).wait(scope);
  for (unsigned i = 0; i < kKeySlots; ++i) EXPECT_TRUE(fit[i]) << i;
  EXPECT_EQ(KJ_ASSERT_NONNULL(luks.open(path, "", settings(31, "key31")).wait(scope)).slot, 31u);
  EXPECT_TRUE(luks.open(path, "", settings(31, "key32")).wait(scope) == nullptr);

  capnp::MallocMessageBuilder message;
  auto request = message.initRoot<rpc::LuksRequest>();
  request.setSettle();
  EXPECT_EQ(timeoutFor(request), kLuksTimeout);
  request.initAdd();
  EXPECT_EQ(timeoutFor(request), kLuksTimeout + 33 * kLuksDerivation);
  request.initOpen().initKeys(32);
  EXPECT_EQ(timeoutFor(request), kLuksTimeout + 32 * 32 * kLuksDerivation);
}

// Catches: a wrapper that keeps the program from writing a backup, so that no key can be changed;
// or from completing a restoration, so that no boot continues.
TEST_F(LuksTest, KeepsBackupsBehindItsWrapper) {
  auto& scope = io.waitScope;
  auto one = settings(0, "one");
  auto file = kj::str(folder, "/backups/EPHEMERAL");
  luks.mark(path, file).wait(scope);
  luks.format(path, one).wait(scope);
  EXPECT_EQ(luks.compare(path, file).wait(scope), Luks::Comparison::CHANGING);
  luks.backup(path, file, Luks::Change::kIsOver).wait(scope);
  EXPECT_EQ(luks.compare(path, file).wait(scope), Luks::Comparison::SAME);
  // A cut before the last step of a restoration has left this.
  writeFileAtomically(kj::str(file, ".replaced"), "a header"_kj, 0600);
  EXPECT_EQ(luks.compare(path, file).wait(scope), Luks::Comparison::SAME);
  EXPECT_EQ(readFile(kj::str(file, ".refused")), "a header");
  luks.settle(path).wait(scope);
  EXPECT_EQ(luks.compare(path, file).wait(scope), Luks::Comparison::OTHER);
  auto failure = kj::runCatchingExceptions([&]() { luks.restore(path, file, one).wait(scope); });
  EXPECT_NE(
      std::string(messageOf(KJ_ASSERT_NONNULL(failure)).cStr()).find("opens the data with it"),
      std::string::npos);
  writeFileAtomically(file, "half of a header"_kj, 0600);
  EXPECT_EQ(luks.compare(path, file).wait(scope), Luks::Comparison::DAMAGED);
  luks.forget(file).wait(scope);
  EXPECT_EQ(luks.compare(path, file).wait(scope), Luks::Comparison::NONE);
}

// Catches: a program that opens other files than those of its request: libcryptsetup reads a header
// that anyone may have written, and is confined to them.
TEST_F(LuksTest, OpensNothingElse) {
  auto& scope = io.waitScope;
  auto one = settings(0, "one");
  luks.format(path, one).wait(scope);
  auto elsewhere = kj::str(folder, "/elsewhere/EPHEMERAL"), file = kj::str(folder, "/backups/link");
  luks.backup(path, elsewhere, Luks::Change::kIsOver).wait(scope);
  luks.mark(path, kj::str(folder, "/backups/other")).wait(scope);
  EXPECT_EQ(luks.compare(path, elsewhere).wait(scope), Luks::Comparison::SAME);
  // The path to it is in the folder that the program may read; the file is not.
  KJ_SYSCALL(symlink(elsewhere.cStr(), file.cStr()));
  auto failure = kj::runCatchingExceptions([&]() { luks.compare(path, file).wait(scope); });
  EXPECT_NE(std::string(messageOf(KJ_REQUIRE_NONNULL(failure)).cStr()).find("Permission denied"),
            std::string::npos);
}

// Catches: two derivations of keys at once; a call that waits for ever because its predecessor's
// caller has gone away.
TEST_F(LuksTest, OneAfterTheOther) {
  auto one = settings(0, "one");
  auto formatting = luks.format(path, one);
  auto opening = luks.open(path, "", one);
  EXPECT_TRUE(opening.wait(io.waitScope) != nullptr) << "it overtook the formatting";
  formatting.wait(io.waitScope);
  {
    auto dropped = luks.inspect(path);
  }
  auto two = key(1, "two");
  auto adding = luks.add(path, {two, 1}, {one.keys[0], 0});
  {
    auto dropped = luks.inspect(path);
  }
  EXPECT_EQ(luks.inspect(path).wait(io.waitScope).slots.size(), 2u) << "it overtook the addition";
  adding.wait(io.waitScope);
  EXPECT_EQ(luks.inspect(path).wait(io.waitScope).content, Luks::Content::LUKS);
}

// The end of a terminal that the program opens as the device of a TPM. Until a TPM in software
// (swtpm) is at the other end, nothing answers.
struct TpmOnTerminal {
  kj::AutoCloseFd master, terminal;
  kj::String path, folder;
  pid_t process = 0;

  TpmOnTerminal() {
    int ends[2];
    char name[64], state[] = "/tmp/swtpm-XXXXXX";
    KJ_SYSCALL(openpty(&ends[0], &ends[1], name, nullptr, nullptr));
    master = kj::AutoCloseFd(ends[0]);
    terminal = kj::AutoCloseFd(ends[1]);
    struct termios raw;
    KJ_SYSCALL(tcgetattr(terminal, &raw));
    cfmakeraw(&raw);
    KJ_SYSCALL(tcsetattr(terminal, TCSANOW, &raw));
    path = kj::str(name);
    folder = kj::str(mkdtemp(state));
  }
  ~TpmOnTerminal() noexcept(false) {
    if (process != 0) {
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
    removeTree(folder);
  }
  void turnOn() {
    constexpr int kDevice = 3;
    auto state = kj::str("dir=", folder);
    const char* argv[] = {"swtpm",      "chardev",    "--tpm2",
                          "--tpmstate", state.cStr(), "--fd",
                          "3",          "--flags",    "not-need-init,startup-clear",
                          nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, master, kDevice);
    int failed =
        posix_spawnp(&process, "swtpm", &actions, nullptr, const_cast<char**>(argv), environ);
    posix_spawn_file_actions_destroy(&actions);
    KJ_REQUIRE(failed == 0, "cannot start swtpm", strerror(failed));
  }
};

// Catches: a wrapper that keeps the program from its TPM; a secret that is lost on the way; a boot
// that waits for a TPM that hangs; a message that does not name it.
TEST_F(LuksTest, SealsAndUnsealsBehindItsWrapper) {
  auto& scope = io.waitScope;
  TpmOnTerminal chip;
  auto secret = "0123456789abcdef0123456789abcdef"_kj.asBytes();
  VolumeKey key(0, KeyKind::kTpm, nullptr);
  key.sealing = Sealing();
  auto with = [&](TpmAccess access) {
    return kj::heap<RealLuks>(
        io, uv, [] { return Modules::ofRunningKernel(); }, kms, quick, confine, program, access);
  };
  auto refusal = [&](TpmAccess access) -> std::string {
    auto luks = with(access);
    auto failure = kj::runCatchingExceptions([&] { luks->seal(key, secret).wait(scope); });
    return messageOf(KJ_ASSERT_NONNULL(failure)).cStr();
  };
  EXPECT_EQ(refusal({chip.path, 1 * kj::SECONDS}), "the TPM timed out after 1 s");
  tcflush(chip.master, TCIOFLUSH);
  tcflush(chip.terminal, TCIOFLUSH);
  chip.turnOn();
  auto luks = with({chip.path});
  auto userData = luks->seal(key, secret).wait(scope);
  EXPECT_NE(std::string(userData.cStr()).find("sealed_blob_private"), std::string::npos);
  EXPECT_TRUE(luks->unseal(key, userData).wait(scope).secret.asPtr() == secret);
  auto failure = kj::runCatchingExceptions([&] { luks->unseal(key, "{}").wait(scope); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kFailedPrecondition);
  EXPECT_NE(refusal({"/dev/no-tpm"}).find("this machine has no TPM 2.0"), std::string::npos);
}

// Catches: a key of a server that is given to the TPM; another endpoint than the config's; a key of
// STATE whose server is trusted by the config.
TEST_F(LuksTest, KeysOfServersNeedNoProgram) {
  auto absent = kj::str(kBuild, "/no-such-program");
  RealLuks alone(io, uv, [] { return Modules::ofRunningKernel(); }, kms, quick, confine, absent);
  VolumeKey key(0, KeyKind::kKms, nullptr);
  key.sealing.emplace().endpoint = kj::str("a:1");
  EXPECT_EQ(alone.seal(key, "secret"_kj.asBytes()).wait(io.waitScope), "a:1 secret");
  auto unsealed = alone.unseal(key, "data").wait(io.waitScope);
  EXPECT_EQ(kj::str(unsealed.secret.asChars()), "a:1 data");
  EXPECT_TRUE(unsealed.sealing.isTo(KJ_ASSERT_NONNULL(key.sealing)));
  KJ_ASSERT_NONNULL(key.sealing).beforeConfig = true;
  auto copy = key.clone();
  EXPECT_EQ(alone.seal(copy, "secret"_kj.asBytes()).wait(io.waitScope), "a:1 early secret");
  unsealed = alone.unseal(copy, "data").wait(io.waitScope);
  EXPECT_EQ(kj::str(unsealed.secret.asChars()), "a:1 early data");
}

// Catches: a brain that waits for a program that is missing, or was killed.
TEST_F(LuksTest, AProgramThatDiesIsAFailure) {
  auto absent = kj::str(kBuild, "/no-such-program");
  RealLuks broken(io, uv, [] { return Modules::ofRunningKernel(); }, kms, quick, confine, absent);
  auto failure = kj::runCatchingExceptions([&]() { broken.inspect(path).wait(io.waitScope); });
  EXPECT_NE(
      std::string(messageOf(KJ_ASSERT_NONNULL(failure)).cStr()).find("exited with status 126"),
      std::string::npos);
}

}  // namespace
}  // namespace talos::machined
