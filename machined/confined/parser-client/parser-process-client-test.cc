// Parses foreign bytes in processes: in good ones and in compromised ones (hostile-parser-test.cc).
// Needs root.
#include "machined/confined/parser-client/parser-process-client.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/compat/tls.h>
#include <kj/debug.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/tar/test-tar.h"
#include "common/testing/sanitizers.h"
#include "common/tls/pki.h"
#include "machined/confined/frames/frame.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

constexpr auto kDocument =
    "version: v1alpha1\nmachine:\n  type: worker\n  token: aaaaaa.aaaaaaaaaaaaaaaa\n"
    "  network:\n    hostname: a\ncluster:\n  token: bbbbbb.bbbbbbbbbbbbbbbb\n"
    "  controlPlane:\n    endpoint: https://10.0.0.1:6443\n"_kj;

template <typename F>
std::string resultOf(F&& ask) {
  try {
    return ask();
  } catch (const kj::Exception& e) {
    return kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
  }
}

class Confined : public testing::Test {
 protected:
  ~Confined() noexcept override {}
  void SetUp() override {
    ASSERT_EQ(0u, getuid()) << "these tests need root";
    if (kAddressSanitizer) {
      GTEST_SKIP() << "a program with sanitizers needs more calls than the filter lets through";
    }
    char name[] = "/tmp/talos-foreign-test-XXXXXX";
    ASSERT_NE(nullptr, mkdtemp(name));
    folder = kj::str(name);
    chmod(name, 0755);
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    program = kj::heapString(self, static_cast<size_t>(n));
  }
  void TearDown() override {
    EXPECT_TRUE(noChildIsLeft());
    for (auto& l : links) unlink(l.cStr());
    if (folder.size() > 0) rmdir(folder.cStr());
  }

  // Returns a client whose processes run the attack `how` instead of parsing.
  ConfinedForeign& badly(kj::StringPtr how, kj::Duration timeout = kParserTimeout) {
    links.add(kj::str(folder, "/parse-", how));
    EXPECT_EQ(0, symlink(program.cStr(), links.back().cStr()));
    return bad.emplace(io, ParserPrograms{confine, links.back()}, timeout);
  }
  // Returns the outcome of parsing a document.
  std::string outcome(ForeignBytes& foreign, kj::StringPtr document = kDocument) {
    return resultOf([&]() -> std::string {
      auto checked = foreign.config(document, "x.yaml", config::Mode::kCloud).wait(io.waitScope);
      if (checked.errors.empty()) return checked.config.get().getMachine().getToken().cStr();
      return kj::strArray(checked.errors, "\n").cStr();
    });
  }
  // Returns a read-only image of a disk.
  kj::AutoCloseFd diskWith(std::initializer_list<std::pair<off_t, std::string>> content) {
    auto file = kj::str(folder, "/disk");
    kj::AutoCloseFd out(open(file.cStr(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    KJ_SYSCALL(ftruncate(out, 16 << 20));
    for (auto& [at, bytes] : content) KJ_SYSCALL(pwrite(out, bytes.data(), bytes.size(), at));
    int raw;
    KJ_SYSCALL(raw = open(file.cStr(), O_RDONLY | O_CLOEXEC));
    unlink(file.cStr());
    return kj::AutoCloseFd(raw);
  }
  // Waits until the last child is reaped.
  bool noChildIsLeft() {
    for (int i = 0; i < 10000; ++i) {
      io.provider->getTimer().afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
      if (waitid(P_ALL, 0, nullptr, WEXITED | WNOHANG | WNOWAIT) < 0) return errno == ECHILD;
    }
    return false;
  }

  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::String folder, program;
  kj::Vector<kj::String> links;
  kj::String confine = kj::str(TALOS_PROGRAMS "/confine"), parse = kj::str(TALOS_PROGRAMS "/parse");
  kj::Maybe<ConfinedForeign> bad;
  ConfinedForeign good{io, ParserPrograms{.parse = parse}};
};

// Catches: a filter or a limit that the parsers cannot live with; a document that is read by the
// process of an earlier document.
TEST_F(Confined, ReadsConfigs) {
  EXPECT_EQ("aaaaaa.aaaaaaaaaaaaaaaa", outcome(good));
  EXPECT_THAT(outcome(good, "machine:\n  type: masterr\n"),
              HasSubstr("x.yaml:2:9: machine.type: \"masterr\" is not a valid machine type"));
  EXPECT_EQ(2u, good.started());
  EXPECT_TRUE(noChildIsLeft());
}

// Catches: a process that keeps a right, or that reads bytes before it has dropped its rights.
TEST_F(Confined, DropsItsRightsBeforeItReads) {
  kj::String status;
  auto look = [&](uint64_t, size_t size) -> kj::Promise<kj::Array<const kj::byte>> {
    auto child = strtol(readFile("/proc/thread-self/children").cStr(), nullptr, 10);
    status = readFile(kj::str("/proc/", child, "/status"));
    return kj::Array<const kj::byte>(kj::heapArray<kj::byte>(size));
  };
  good.superblock("/dev/vda", look).wait(io.waitScope);
  for (auto line :
       {"Uid:\t53\t53\t53\t53\n", "Gid:\t53\t53\t53\t53\n", "Groups:\t \n", "NoNewPrivs:\t1\n",
        "Seccomp:\t2\n", "CapPrm:\t0000000000000000\n", "CapBnd:\t0000000000000000\n"}) {
    EXPECT_THAT(status.cStr(), HasSubstr(line));
  }
}

// Catches: secrets in the redacted texts; a text that is changed on its way.
TEST_F(Confined, Redacts) {
  auto shown = good.redact(kDocument, "machine:\n  token: x\n"_kj).wait(io.waitScope);
  EXPECT_THAT(shown.from.cStr(), HasSubstr("\n  token: *** (old)\n  network:"));
  EXPECT_STREQ("machine:\n  token: *** (new)\n", shown.to.cStr());
}

// Catches: fragments that are lost or reordered on their way; an error that does not come back.
TEST_F(Confined, MergesPartsOfContainerdsConfiguration) {
  auto system = "a = 3\nc = 4\n"_kj;
  auto fragments = kj::arr(kj::str("a = 1"), kj::str("b = 2"));
  auto merged = good.containerd(system.asArray(), fragments).wait(io.waitScope);
  EXPECT_STREQ("a = 1\nb = 2\nc = 4\n", merged.cStr());
  fragments[1] = kj::str("a = 2");
  EXPECT_THAT(resultOf([&]() -> std::string {
                return good.containerd(system.asArray(), fragments).wait(io.waitScope).cStr();
              }),
              HasSubstr("a has another value already"));
}

// Catches: a document of an extension's service that is lost on its way.
TEST_F(Confined, ReadsTheDocumentsOfExtensions) {
  auto document =
      "machine: {}\n---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: agent\n"
      "environment: [A=b]\nconfigFiles: [{mountPath: /etc/a, content: text}]\n"_kj;
  auto configs = good.extensionConfigs(document.asArray()).wait(io.waitScope);
  ASSERT_EQ(1u, configs.size());
  EXPECT_EQ("agent A=b", kj::str(configs[0].name, " ", configs[0].environment[0]));
  EXPECT_STREQ("/etc/a", configs[0].files[0].mountPath.cStr());
  EXPECT_STREQ("text", configs[0].files[0].content.cStr());
}

// Catches: the instruction for VMware's port executed on another machine, where it ends the
// process; a report that a process cannot make under its filter.
TEST_F(Confined, AsksTheHypervisor) {
  // On a VMware it may answer.
  auto asked = testing::AnyOf(HasSubstr("this machine is not on VMware: "), "answered");
  EXPECT_THAT(resultOf([&]() -> std::string {
                good.guestConfig().wait(io.waitScope);
                return "answered";
              }),
              asked);
  EXPECT_THAT(resultOf([&]() -> std::string {
                good.guestFacts().wait(io.waitScope);
                return "answered";
              }),
              asked);
  EXPECT_EQ(2u, good.started());
  auto report = good.readyReport(
                        "<G><Incarnation>1</Incarnation><ContainerId>c</ContainerId>"
                        "<InstanceId>i</InstanceId></G>"_kj)
                    .wait(io.waitScope);
  EXPECT_THAT(report.cStr(), HasSubstr("<State>Ready</State>"));
  EXPECT_TRUE(noChildIsLeft());
}

// Catches: bytes of a device that are changed on their way; an offset that is lost.
TEST_F(Confined, ReadsSuperblocks) {
  unsigned reads = 0;
  auto found = good.superblock("/dev/vda",
                               [&](uint64_t offset, size_t size) {
                                 ++reads;
                                 auto bytes = kj::heapArray<kj::byte>(size);
                                 memset(bytes.begin(), 0, bytes.size());
                                 if (offset == 0) memcpy(bytes.begin(), "XFSB", 4);
                                 if (offset == 0) memcpy(bytes.begin() + 108, "STATE", 5);
                                 return kj::Promise<kj::Array<const kj::byte>>(kj::mv(bytes));
                               })
                   .wait(io.waitScope);
  auto& superblock = KJ_ASSERT_NONNULL(found.content);
  EXPECT_EQ(FileSystem::kXfs, superblock.type);
  EXPECT_EQ("STATE", superblock.label);
  EXPECT_EQ(1u, reads);
}

// Catches: a sample that changes on its way.
TEST_F(Confined, JudgesTime) {
  auto now = kj::UNIX_EPOCH + 1790000000 * kj::SECONDS;
  auto query = ntp::makeQuery(7);
  auto reply =
      KJ_ASSERT_NONNULL(ntp::answer(query, now + 3 * kj::SECONDS, now + 3 * kj::SECONDS, {}));
  auto verdict =
      good.ntp({.bytes = reply, .nonce = 7, .sent = now, .elapsed = 10 * kj::MILLISECONDS})
          .wait(io.waitScope);
  ASSERT_TRUE(verdict.is<ntp::Sample>());
  auto expected = ntp::judge(reply, 7, now, 10 * kj::MILLISECONDS).get<ntp::Sample>();
  EXPECT_EQ(expected.offset, verdict.get<ntp::Sample>().offset);
  EXPECT_EQ(expected.rootDistance, verdict.get<ntp::Sample>().rootDistance);
}

// Catches: a filter under which keys or certificates cannot be made.
TEST_F(Confined, ResolvesNames) {
  auto ask = [&](kj::StringPtr host) {
    return resultOf([&]() -> std::string {
      return kj::strArray(good.resolve(host).wait(io.waitScope), " ").cStr();
    });
  };
  EXPECT_THAT(ask("localhost"), HasSubstr("127.0.0.1")) << "the files of names";
  auto before = good.started();
  EXPECT_EQ("192.0.2.7", ask("192.0.2.7"));
  EXPECT_EQ("fd00::1", ask("[fd00::1]"));
  EXPECT_EQ(before, good.started()) << "a process for nothing";
  EXPECT_THAT(ask("no..name"), HasSubstr("Unavailable: cannot resolve \"no..name\": "));
}

// Catches: slow lookups that delay configs; lookups have separate places.
TEST_F(Confined, LookupsDoNotHoldUpOthers) {
  auto& hanging = badly("hang", 1 * kj::HOURS);
  kj::Vector<kj::Promise<void>> lookups;
  for (unsigned i = 0; i < 2 * kMostParsers; ++i) {
    lookups.add(hanging.resolve("slow.example").ignoreResult());
    EXPECT_FALSE(lookups.back().poll(io.waitScope));
  }
  auto before = hanging.started();
  EXPECT_LE(before, kMostLookups);
  auto other = hanging.config(kDocument, "x.yaml", config::Mode::kCloud).ignoreResult();
  EXPECT_FALSE(other.poll(io.waitScope));
  EXPECT_EQ(before + 1, hanging.started()) << "it waits for the lookups";
}

TEST_F(Confined, GeneratesConfigs) {
  capnp::MallocMessageBuilder message;
  auto request = message.initRoot<rpc::GenerateRequest>();
  request.setClusterName("c");
  request.setEndpoint("https://10.5.0.2:6443");
  auto files = good.generate(request, nullptr).wait(io.waitScope);
  ASSERT_EQ(4u, files.size());
  EXPECT_EQ("controlplane.yaml", files[1].name);
  auto made = good.config(files[1].content, "made", config::Mode::kMetal).wait(io.waitScope);
  ASSERT_TRUE(made.errors.empty()) << made.errors[0].cStr();
  // Configs for another node of the same cluster have its secrets.
  auto more = good.generate(request, made.config.get()).wait(io.waitScope);
  auto worker = good.config(more[2].content, "more", config::Mode::kMetal).wait(io.waitScope);
  EXPECT_EQ(made.config.get().getMachine().getToken(), worker.config.get().getMachine().getToken());
  request.setEndpoint("no URL");
  EXPECT_ANY_THROW(good.generate(request, nullptr).wait(io.waitScope));
}

HttpSource localPlace(bool secure) {
  HttpSource place;
  place.secure = secure;
  place.host = kj::str("localhost");
  place.port = secure ? 443 : 80;
  place.authority = kj::str("localhost");
  place.target = kj::str("/config");
  place.shown = kj::str(secure ? "https" : "http", "://localhost/config");
  return place;
}

// Catches: a connection that does not get to the process; a filter that TLS cannot live with; a
// certificate that is not checked; a place that is lost.
TEST_F(Confined, FetchesOverHttps) {
  auto authority = pki::makeAuthority({.organization = "private"});
  auto leaf = pki::issue(authority.certificate, authority.key,
                         {.commonName = "web", .dnsNames = kj::arr(kj::str("localhost"))});
  kj::TlsKeypair pair{kj::TlsPrivateKey(kj::StringPtr(pki::toPkcs8(leaf.key))),
                      kj::TlsCertificate(leaf.certificate)};
  kj::TlsContext::Options options;
  options.defaultKeypair = pair;
  kj::TlsContext tls(kj::mv(options));
  auto serve = [&](kj::Own<kj::AsyncIoStream> plain) -> kj::Promise<void> {
    auto stream = co_await tls.wrapServer(kj::mv(plain));
    char head[4096];
    co_await stream->tryRead(head, 1, sizeof(head));
    constexpr auto kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nmachine: {}"_kj;
    co_await stream->write(kAnswer.begin(), kAnswer.size());
  };
  auto place = localPlace(true);
  auto fetch = [&](kj::StringPtr authorities) -> std::string {
    auto pipe = io.provider->newTwoWayPipe();
    auto serving = serve(kj::mv(pipe.ends[0])).eagerlyEvaluate([](kj::Exception&&) {});
    HttpProgress progress;
    return resultOf([&]() -> std::string {
      auto now = kj::systemPreciseCalendarClock().now();
      auto answer = good.http(kj::mv(pipe.ends[1]), place, authorities, now, progress);
      auto text = kj::str(answer.wait(io.waitScope).get<kj::Array<char>>());
      EXPECT_EQ("reading the answer", progress.doing);
      EXPECT_EQ(11u, progress.received);
      return text.cStr();
    });
  };
  EXPECT_EQ("machine: {}", fetch(authority.certificate));
  auto other = pki::makeAuthority({.organization = "other"});
  EXPECT_THAT(fetch(other.certificate), HasSubstr("certificate"));
}

struct Collected final : HttpPieces {
  std::string body;
  void begins(uint64_t from, uint64_t) override { EXPECT_EQ(from, body.size()); }
  kj::Promise<void> piece(kj::Array<kj::byte> bytes) override {
    EXPECT_LE(bytes.size(), kMostPieceBytes);
    body.append(bytes.asChars().begin(), bytes.size());
    return kj::READY_NOW;
  }
};

// Catches: a filter that a long body cannot live with; a piece that is lost or out of order; a
// process that sends more than there is memory for, or that is blamed for a full disk.
TEST_F(Confined, FetchesInPieces) {
  std::string body;
  for (unsigned i = 0; body.size() < 300'000; ++i) body += std::to_string(i) + " ";
  auto place = localPlace(false);
  auto serve = [&](kj::Own<kj::AsyncIoStream> stream) -> kj::Promise<void> {
    char head[4096];
    co_await stream->tryRead(head, 1, sizeof(head));
    auto text =
        "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    co_await stream->write(text.data(), text.size());
  };
  auto fetch = [&](ForeignBytes& foreign, HttpPieces& to) -> std::string {
    auto pipe = io.provider->newTwoWayPipe();
    auto serving = serve(kj::mv(pipe.ends[0])).eagerlyEvaluate([](kj::Exception&&) {});
    HttpProgress progress;
    return resultOf([&] {
      auto moved = foreign.pieces(kj::mv(pipe.ends[1]), place, "", kj::UNIX_EPOCH, 0, progress, to)
                       .wait(io.waitScope);
      return moved == nullptr ? "ended" : "moved";
    });
  };
  Collected whole;
  EXPECT_EQ(fetch(good, whole), "ended");
  EXPECT_TRUE(whole.body == body);
  struct Full final : HttpPieces {
    void begins(uint64_t, uint64_t) override {}
    kj::Promise<void> piece(kj::Array<kj::byte>) override {
      return error(ErrorKind::kResourceExhausted, "no room");
    }
  } full;
  EXPECT_EQ(fetch(good, full), "ResourceExhausted: no room");
  Collected none;
  EXPECT_THAT(fetch(badly("flood"), none), HasSubstr("a piece that is too large"));
  EXPECT_THAT(fetch(badly("exit"), none), HasSubstr("Unavailable: the parser was killed"));
  EXPECT_EQ(none.body, "");
}

// Catches: places of files that are not those of the archive; a process that makes the brain read
// more than promised; an archive that is blamed for its disk.
TEST_F(Confined, LooksIntoArchives) {
  TestTar layer, tar;
  for (auto name : kImageFiles) layer.file(kj::str("usr/install/", name), 0644, name);
  tar.file("blobs/sha256/1", 0644, kj::heapString(layer.finish().asChars()));
  tar.file("blobs/sha256/2", 0644, R"({"layers":[{"digest":"sha256:1"}]})");
  tar.file("index.json", 0644, R"({"manifests":[{"digest":"sha256:2"}]})");
  auto bytes = tar.finish();
  unsigned reads = 0;
  auto look = [&](ForeignBytes& foreign, uint64_t size) -> std::string {
    auto read = [&](uint64_t offset, size_t count) -> kj::Promise<kj::Array<const kj::byte>> {
      if (size == 7) return error(ErrorKind::kInternal, "Input/output error");
      ++reads;
      auto begin = kj::min(offset, size);
      return kj::heapArray<const kj::byte>(bytes.slice(begin, kj::min(begin + count, size)));
    };
    return resultOf([&] {
      std::string found;
      for (auto& part : foreign.archive("i.tar", size, read).wait(io.waitScope)) {
        auto text = bytes.slice(part.offset, part.offset + part.size).asChars();
        EXPECT_EQ(kj::str(text), part.name);
        found += std::string(text.begin(), text.size()) + " ";
      }
      return found;
    });
  };
  EXPECT_EQ(look(good, bytes.size()), "vmlinuz initramfs rootfs.sqsh version SHA256SUMS ");
  EXPECT_THAT(look(good, 4096), HasSubstr("is cut off"));
  EXPECT_THAT(look(good, 7), HasSubstr("Input/output error"));
  reads = 0;
  EXPECT_THAT(look(badly("greedy"), bytes.size()), HasSubstr("twice its answer was damaged"));
  EXPECT_EQ(reads, 0u);
}

// Returns the resources that all reaped children have used.
struct rusage usedByChildren() {
  struct rusage used;
  KJ_SYSCALL(getrusage(RUSAGE_CHILDREN, &used));
  return used;
}
long secondsOf(const struct rusage& used) {
  return used.ru_utime.tv_sec + used.ru_stime.tv_sec;
}

// Catches: limits of memory, time or size that a document within the reader's own limits cannot
// live with.
TEST_F(Confined, ReadsTheLargestDocuments) {
  // CPU time counts, because a busy machine does not give it immediately.
  ConfinedForeign reader(io, ParserPrograms{confine, parse}, 2 * kj::MINUTES);
  struct {
    const char* before;
    const char* item;
    const char* after;
    const char* result;
  } rows[] = {
      {"", "# xxxxxxxxxxxxxx\n", kDocument.cStr(), "aaaaaa.aaaaaaaaaaaaaaaa"},
      {"machine:\n  certSANs:\n", "  - a-host.example.org.\n", "", "required key is missing"},
      {"machine:\n  network:\n    interfaces:\n", "    - {interface: eth00}\n", "", "x.yaml:"},
      {"machine:\n  network:\n    interfaces:\n", "    - {}\n", "", "x.yaml:"},
      {"machine:\n  env: {", "abcdefgh: 0, ", "}\n", "x.yaml:"},
      {"", "[", "", "x.yaml:"},
  };
  for (auto& row : rows) {
    auto count = ((4u << 20) - 8192) / strlen(row.item);
    auto text = kj::str(row.before, kj::strArray(kj::repeat(row.item, count), ""), row.after);
    auto before = secondsOf(usedByChildren());
    auto result = outcome(reader, text);
    EXPECT_THAT(result, HasSubstr(row.result)) << row.item;
    EXPECT_THAT(result, testing::Not(HasSubstr("was killed"))) << row.item;
    EXPECT_TRUE(noChildIsLeft());
    EXPECT_LT(secondsOf(usedByChildren()) - before, kParserTimeout / kj::SECONDS) << row.item;
  }
  auto used = usedByChildren();
  fprintf(stderr, "the largest process: %ld KiB\n", used.ru_maxrss);
  EXPECT_LT(static_cast<uint64_t>(used.ru_maxrss) << 10, kParserMemory * 3 / 4);
}

// Catches: a right that a document gets by taking over the process that reads it.
TEST_F(Confined, MayDoNothing) {
  auto result = outcome(badly("probe"));
  ASSERT_THAT(result, HasSubstr("open="));
  size_t count = 0;
  for (size_t at = 0; (at = result.find('=', at)) != std::string::npos; ++at) {
    ++count;
    EXPECT_EQ(EPERM, atoi(result.c_str() + at + 1)) << result.substr(0, at + 4);
  }
  EXPECT_EQ(26u, count) << result;
}

// Catches: a right that a disk gets over its process, which has it as a descriptor: to write to the
// disk, or to reach files other than those of sysfs.
TEST_F(Confined, MayReadADiskAndDoNothingElse) {
  auto result = resultOf([&]() -> std::string {
    badly("probe").disk("/dev/sdb", diskWith({})).wait(io.waitScope);
    return "";
  });
  ASSERT_THAT(result, HasSubstr("open="));
  for (size_t at = 0; (at = result.find('=', at)) != std::string::npos; ++at) {
    auto error = atoi(result.c_str() + at + 1);
    EXPECT_TRUE(error == EPERM || error == EACCES) << result.substr(0, at + 4);
  }
}

// Catches: a filter without a call that libblkid needs; content of a disk that is lost or reported
// twice.
TEST_F(Confined, LooksAtDisks) {
  auto look = [&](std::initializer_list<std::pair<off_t, std::string>> content) {
    return resultOf([&]() -> std::string {
      auto found = good.disk("/dev/sdb", diskWith(content)).wait(io.waitScope);
      auto volumes = KJ_MAP(v, found.volumes) {
        return kj::str(v.type, "=", v.label);
      };
      return kj::str(found.table.orDefault(kj::str("none")), " ",
                     kj::strArray(found.partitions, ","), " ", kj::strArray(volumes, ","))
          .cStr();
    });
  };
  EXPECT_EQ(look({}), "none  ");
  // An ext4 whose label contains control sequences of a terminal.
  std::string ext(1024, 0);
  ext[0x38] = '\x53', ext[0x39] = '\xef';
  ext[0x4c] = 1;     // revision
  ext[0x60] = 0x40;  // extents
  memcpy(ext.data() + 0x78, "a\033[2J", 5);
  EXPECT_EQ(look({{1024, ext}}), "none  ext4=a?[2J");
  // A partition table of the old kind with one partition.
  std::string mbr(512, 0);
  mbr[446 + 4] = '\x83', mbr[446 + 9] = 8, mbr[446 + 13] = 8;
  mbr[510] = '\x55', mbr[511] = '\xaa';
  EXPECT_EQ(look({{0, mbr}}), "dos 1 ");
}

// Catches: a brain that crashes, hangs or accepts the result when a process does anything but
// answer.
TEST_F(Confined, WhoDiesOfADocumentRefusesIt) {
  struct {
    const char* how;
    const char* problem;
  } ways[] = {{"crash", "twice killed by signal 11 (Segmentation fault)"},
              {"exit", "twice exited with status 0"},
              {"hang", "twice no answer within 200 ms"},
              {"spin", "twice no answer within 200 ms"},
              {"huge", "twice its answer was damaged"},
              {"noise", "twice its answer was damaged"},
              {"chatter", "twice its answer was damaged"}};
  for (auto& way : ways) {
    auto& foreign = badly(way.how, *way.problem == 't' && strstr(way.problem, "200") != nullptr
                                       ? 200 * kj::MILLISECONDS
                                       : kParserTimeout);
    EXPECT_EQ(
        "InvalidArgument: the parser was killed while reading x.yaml: " + std::string(way.problem),
        outcome(foreign));
    EXPECT_EQ(2u, foreign.started());
    EXPECT_TRUE(noChildIsLeft());
  }
}

// Catches: an error for the first death, which may have another cause than the document.
TEST_F(Confined, TheSecondOneMayAnswer) {
  auto& foreign = badly("delicate");
  unsigned reads = 0;
  auto found = foreign
                   .superblock("/dev/vda",
                               [&](uint64_t, size_t) {
                                 kj::byte byte = ++reads == 1 ? '!' : '.';
                                 return kj::Promise<kj::Array<const kj::byte>>(
                                     kj::heapArray<const kj::byte>(&byte, 1));
                               })
                   .wait(io.waitScope);
  EXPECT_TRUE(found.content == nullptr);
  EXPECT_EQ(2u, reads);
}

// Catches: a wrapper that cannot be started and is reported as a damaged document.
TEST_F(Confined, AMissingProgramIsNamed) {
  ConfinedForeign foreign(io, ParserPrograms{"/no/such/program", parse});
  EXPECT_THAT(outcome(foreign), HasSubstr("/no/such/program"));
  ConfinedForeign half(io, ParserPrograms{confine, "/no/such/parser"});
  EXPECT_THAT(outcome(half), HasSubstr("exited with status 126"));
}

// Catches: processes that stay after their caller has dropped the promise.
TEST_F(Confined, ADroppedQuestionEndsItsProcess) {
  auto& foreign = badly("hang");
  {
    auto dropped = foreign.config(kDocument, "x.yaml", config::Mode::kCloud);
    EXPECT_FALSE(dropped.poll(io.waitScope));
    EXPECT_EQ(1u, foreign.started());
  }
  EXPECT_TRUE(noChildIsLeft());
}

// Catches: a process that outlives the brain, with the secrets of a config in it.
TEST_F(Confined, DiesWithTheBrain) {
  ASSERT_EQ(0, prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
  int ends[2];
  ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
  links.add(kj::str(folder, "/parse-deaf"));
  ASSERT_EQ(0, symlink(program.cStr(), links.back().cStr()));
  pid_t brain = fork();
  if (brain == 0) {
    ConfinedChild child(io, ParserPrograms{confine, links.back()}, -1, kParserTimeout);
    struct pollfd started = {KJ_ASSERT_NONNULL(child.stream().getFd()), POLLIN, 0};
    if (poll(&started, 1, 30'000) == 1) write(ends[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte;
  ASSERT_EQ(1, read(ends[0], &byte, 1));
  kill(brain, SIGKILL);
  alarm(30);
  int killed = 0, count = 0, status;
  while (waitpid(-1, &status, 0) > 0) {
    ++count;
    killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 1 : 0;
  }
  alarm(0);
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(2, count);
  EXPECT_EQ(2, killed);
}

}  // namespace
}  // namespace talos::machined
