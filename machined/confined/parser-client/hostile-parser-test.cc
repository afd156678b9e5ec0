// Acts as a parser that the bytes have taken over, for parser-process-client-test.cc. This is the
// program of all tests of this folder, run by the wrapper, under the name of the attack.
#include <arpa/inet.h>
#include <capnp/serialize.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/io.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <string>

#include "machined/confined/frames/frame.h"
#include "machined/confined/parser-client/parser-process-client.h"

namespace talos::machined {
namespace {

void send(kj::FunctionParam<void(rpc::ParseAnswer::Builder)> fill) {
  capnp::MallocMessageBuilder message;
  fill(message.initRoot<rpc::ParseAnswer>());
  auto words = frameOf(message);
  auto size = static_cast<uint32_t>(words.size());
  write(kParserRequestFd, &size, sizeof(size));
  write(kParserRequestFd, words.begin(), words.size() * sizeof(capnp::word));
}

kj::Array<capnp::word> receive() {
  kj::FdInputStream in(kParserRequestFd);
  uint32_t size = 0;
  in.read(&size, sizeof(size));
  auto words = kj::heapArray<capnp::word>(size);
  in.read(words.asBytes().begin(), words.asBytes().size());
  return words;
}

void say(const std::string& text) {
  send([&](rpc::ParseAnswer::Builder out) { out.initFailed().setMessage(text.c_str()); });
}

// Prints NAME=ERRNO of every call that must not work.
void probe() {
  std::string result;
  auto print = [&](const char* what, long code) {
    result += kj::str(what, "=", code < 0 ? errno : 0, " ").cStr();
  };
  pid_t brain = getppid();
  for (auto path : {"/", "/etc/passwd", "/proc/self/status", "/proc/1/environ", "/dev/null"}) {
    print("open", open(path, O_RDONLY | O_CLOEXEC));
  }
  for (int family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET}) {
    print("socket", socket(family, SOCK_STREAM, 0));
  }
  print("socketpair", syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, nullptr));
  struct sockaddr_in address = {};
  print("connect", connect(kParserRequestFd, reinterpret_cast<sockaddr*>(&address), 16));
  print("kill", kill(brain, 0));
  print("kill", kill(-1, 0));
  print("tgkill", syscall(SYS_tgkill, brain, brain, 0));
  print("pidfd", syscall(SYS_pidfd_open, brain, 0));
  print("fork", fork());
  print("thread", syscall(SYS_clone, 0x10f00, nullptr));
  print("ptrace", ptrace(PTRACE_ATTACH, brain, nullptr, nullptr));
  char byte;
  struct iovec value = {&byte, 1};
  print("memory", process_vm_readv(brain, &value, 1, &value, 1, 0));
  print("mount", mount("none", "/", "tmpfs", 0, nullptr));
  print("setuid", syscall(SYS_setuid, 0));
  print("orphan", prctl(PR_SET_PDEATHSIG, 0));
  // By its own number: the result also holds for the other parsers.
  struct rlimit limit;
  print("limits", prlimit(getpid(), RLIMIT_CPU, nullptr, &limit));
  // The process's own memory would have to be enough.
  print("hoard", malloc(kParserMemory) == nullptr ? (errno = EPERM, -1) : 0);
  result += kj::str("uid=", getauxval(AT_UID) == kParserUid ? EPERM : 0).cStr();
  say(result);
}

void misbehave(const std::string& how) {
  if (how == "deaf") {
    write(kParserRequestFd, "x", 1);
    for (;;) poll(nullptr, 0, -1);
  }
  auto request = receive();
  capnp::FlatArrayMessageReader reader(request);
  if (how == "crash") __builtin_memset(reinterpret_cast<void*>(uintptr_t{8}), 0, 8);
  if (how == "exit") return;
  if (how == "hang") {
    for (;;) receive();  // waits for a message that never comes
  }
  if (how == "spin") {
    for (volatile unsigned i = 0;; i = i + 1) {
    }
  }
  if (how == "probe") probe();
  if (how == "huge") {
    uint32_t size = 0xffffffff;
    write(kParserRequestFd, &size, sizeof(size));
    receive();
  }
  if (how == "noise") {
    std::string noise(4096, '\x55');
    uint32_t size = 512;
    write(kParserRequestFd, &size, sizeof(size));
    write(kParserRequestFd, noise.data(), noise.size());
  }
  if (how == "chatter") {
    for (;;) send([](rpc::ParseAnswer::Builder out) { out.initProgress(); });
  }
  if (how == "greedy") {
    send([](rpc::ParseAnswer::Builder out) { out.initWanted().setSize(kMostSuperblockBytes + 1); });
    receive();
  }
  if (how == "flood") {
    send([](rpc::ParseAnswer::Builder out) { out.initPiece(kMostPieceBytes + 1); });
  }
  // Dies of bytes that begin with an exclamation mark.
  if (how == "delicate") {
    send([](rpc::ParseAnswer::Builder out) { out.initWanted().setSize(1); });
    auto words = receive();
    capnp::FlatArrayMessageReader bytes(words);
    if (bytes.getRoot<rpc::ParseRequest>().getBytes()[0] == '!') return;
    send([](rpc::ParseAnswer::Builder out) { out.initSuperblock(); });
  }
}

// Runs before main() and before gtest starts: if the wrapper started this program, its name selects
// the attack.
__attribute__((constructor(101))) void becomeParser(int argc, char** argv, char**) {
  std::string name = argc == 1 ? argv[0] : "";
  auto at = name.rfind("/parse-");
  if (at == std::string::npos) return;
  try {
    misbehave(name.substr(at + 7));
  } catch (...) {
    _exit(3);
  }
  _exit(0);
}

}  // namespace
}  // namespace talos::machined
