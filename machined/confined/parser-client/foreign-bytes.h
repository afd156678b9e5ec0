// The interface to the parsing of foreign bytes in processes without rights.
//
// The brain is root and holds every secret of the node. Bytes from outside (machine configs,
// answers of web servers, datagrams on NTP ports, the first bytes of disks) are parsed in a process
// of its own (machined/confined/parser), which is started for that one piece, gets nothing but it,
// answers and ends. It has a user of its own, no capability, no file, no way to make a socket, a
// thread or a process, and cannot send signals
// (machined/confined/parser-client/confined-process.h). So a document that takes over the process
// that reads it gains one thing: it can lie about itself. It could have had any content in the
// first place, for a config is as powerful as its author is trusted, an NTP answer is not
// authenticated anyway, and a label is only a name. It cannot learn of another document, because no
// process sees two. The one exception is https: the process checks the server's certificate, and a
// server that took it over in the handshake could pretend to be another one. And the one that
// resolves a name has sockets of IP: who took it over can talk to the network as the node, without
// any of its keys. The one that looks at a disk reads all of it, and sysfs, and has no way to pass
// that on.
//
// The answers are foreign too. Each is one Cap'n Proto message of bounded size; every number is
// checked against its range and every text is made one printable line here, before anybody else
// sees it. Whatever is not as it must be counts as no answer.
//
// A process that dies, or has not answered in time, is replaced once at once; the piece that does
// that to two of them is refused with an error that says so. The brain neither crashes nor hangs.
// Nothing is kept: what is being parsed when the brain dies is lost with it, and so is the process.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>

#include "common/config/config.h"
#include "common/net/ntp.h"
#include "machined/confined/parser-client/config-url-parameter.h"
#include "machined/confined/parser-client/known-config.h"
#include "machined/confined/parser-client/known-facts.h"
#include "machined/confined/parser-client/probed-file-system.h"
#include "machined/platforms/platform.h"
#include "rpc/configuration.capnp.h"

namespace talos::machined {

constexpr size_t kMostConfigBytes = 4u << 20;
// The view of the largest config: a list of small items takes about eight times its text.
constexpr size_t kMostAnswerBytes = 32u << 20;
constexpr size_t kMostSuperblockBytes = 64u << 10;
constexpr unsigned kMostPartitions = 256, kMostVolumes = 64;  // of a disk, that are named
constexpr unsigned kMostAddresses = 64;                       // of a name: more than anybody tries
constexpr unsigned kMostSuperblockReads = 16;                 // the partition table's with them
// Messages that a process may send before its answer: one for each state of a fetch, and one for
// each thirty-second part by which the body has grown (machined/confined/parser/http-get.cc), some
// 400 in all.
constexpr unsigned kMostInterim = 1024;

struct CheckedConfig {
  KnownConfig config;                       // complete only if there are no errors
  bool empty;                               // there is no machine config in the document
  kj::Vector<kj::String> errors, warnings;  // as they are printed
};

// The content of a whole disk (machined/confined/parser/disk-probe.h).
struct FoundOnDisk {
  struct Volume {
    kj::String type;   // "ext4", "LVM2_member"
    kj::String label;  // may be empty
  };
  kj::Maybe<kj::String> table;        // "gpt", "dos"
  kj::Vector<kj::String> partitions;  // names; or numbers, where they have none
  kj::Vector<Volume> volumes;         // on the whole disk
};

struct RedactedConfigs {
  kj::String from, to;
};

struct NtpReply {
  kj::ArrayPtr<const kj::byte> bytes;
  uint64_t nonce;
  kj::Date sent;
  kj::Duration elapsed;
};

// Of a new cluster.
struct GeneratedFile {
  kj::String name, content;
};

// The answer of a web server: a body that could be a config, or where to go on.
using HttpAnswer = kj::OneOf<kj::Array<char>, HttpSource>;

// Of a try while it runs, for the message when its time is up.
struct HttpProgress {
  kj::String doing;
  uint64_t received = 0;
};

// A body that is taken as it comes.
class HttpPieces {
 public:
  virtual ~HttpPieces() noexcept(false) = default;
  // The body follows from this byte on: 0 when the server starts at the beginning. `size`: of the
  // whole; 0 when the server does not say. Throws the error that the fetch fails with.
  virtual void begins(uint64_t from, uint64_t size) = 0;
  virtual kj::Promise<void> piece(kj::Array<kj::byte> bytes) = 0;
};
constexpr size_t kMostPieceBytes = 64u << 10;

// A file of an installer image, in an archive.
struct ImagePart {
  kj::String name;
  uint64_t offset, size;
};
// All that an installer image must have in usr/install.
constexpr kj::StringPtr kImageFiles[] = {"vmlinuz"_kj, "initramfs"_kj, "rootfs.sqsh"_kj,
                                         "version"_kj, "SHA256SUMS"_kj};
// Optional: images of earlier releases lack it.
constexpr kj::StringPtr kConfigKeysFile = "config-keys"_kj;
// Of kMostSuperblockBytes each: more than an archive of kMostImageBytes has.
constexpr unsigned kMostArchiveReads = 20'000;
constexpr uint64_t kMostImageBytes = uint64_t{1} << 30;

// One of the signatures of an image in a registry (machined/confined/parser/image-signature.h).
struct ImageSignature {
  kj::String payload;  // what it is one of: sha256:<hex>
  kj::Array<kj::byte> signature;
};
constexpr unsigned kMostImageSignatures = 64;
constexpr size_t kMostImageSignature = 1024;
constexpr size_t kMostSignatureManifest = 512u << 10, kMostSignedPayload = 16u << 10;

// The answer of a platform to a request of machined/platforms.
struct PlatformAnswer {
  kj::StringPtr name;
  kj::Array<char> body;
};
constexpr size_t kMostFactsBytes = 256u << 10;
constexpr size_t kMostReadyReport = 4u << 10;

class ForeignBytes {
 public:
  virtual ~ForeignBytes() noexcept(false) = default;

  // Every mistake is in the result; rejects only when nobody could read it.
  virtual kj::Promise<CheckedConfig> config(kj::ArrayPtr<const char> document, kj::StringPtr file,
                                            config::Mode mode) = 0;
  // Two versions of a config without their secrets (common/config/config-redact.h).
  virtual kj::Promise<RedactedConfigs> redact(kj::ArrayPtr<const char> from,
                                              kj::ArrayPtr<const char> to) = 0;
  // New configs and a talosconfig, for the cluster of `own` or for a new one; InvalidArgument for a
  // request that makes no sense. The writer reads what it has written.
  virtual kj::Promise<kj::Vector<GeneratedFile>> generate(
      rpc::GenerateRequest::Reader request, kj::Maybe<config::Config::Reader> own) = 0;
  // gzip is unpacked; rejects with what it is instead when it is not text at all.
  virtual kj::Promise<kj::Array<char>> text(kj::Array<char> body) = 0;
  // `read` gives what is on a device: at most kMostSuperblockReads times kMostSuperblockBytes.
  using ReadDevice =
      kj::Function<kj::Promise<kj::Array<const kj::byte>>(uint64_t offset, size_t size)>;
  struct OnDevice {
    kj::Maybe<Superblock> content;
    bool lostTable = false;  // without content: machined/confined/parser/partition-table.h
  };
  virtual kj::Promise<OnDevice> superblock(kj::StringPtr device, ReadDevice read) = 0;
  // Finds out what is on the disk behind the descriptor, which must be read-only. Unavailable when
  // the disk cannot be read.
  virtual kj::Promise<FoundOnDisk> disk(kj::StringPtr name, kj::AutoCloseFd fd) = 0;
  // The addresses of a host name, best first, never empty; an address is its own. Unavailable
  // naming the host.
  virtual kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr host) = 0;
  // Never rejects.
  virtual kj::Promise<ntp::Verdict> ntp(NtpReply reply) = 0;
  // One GET over this connection, which must be a socket. `progress` has to outlive the promise.
  virtual kj::Promise<HttpAnswer> http(kj::Own<kj::AsyncIoStream> connection,
                                       const HttpSource& place, kj::StringPtr authorities,
                                       kj::Date now, HttpProgress& progress) = 0;
  // The same for a body of any size, from byte `from` on if the server can do that. Resolves when
  // all of it has come, or to where the server sends us. NotFound and PermissionDenied as the
  // server says; Unavailable for what may pass. Both references have to outlive the promise.
  virtual kj::Promise<kj::Maybe<HttpSource>> pieces(kj::Own<kj::AsyncIoStream> connection,
                                                    const HttpSource& place,
                                                    kj::StringPtr authorities, kj::Date now,
                                                    uint64_t from, HttpProgress& progress,
                                                    HttpPieces& to) = 0;
  // The files of an installer image in an archive of `size` bytes: those of kImageFiles, then
  // kConfigKeysFile if it has that. `read` as above, kMostArchiveReads times. FailedPrecondition
  // when it is none.
  virtual kj::Promise<kj::Vector<ImagePart>> archive(kj::StringPtr name, uint64_t size,
                                                     ReadDevice read) = 0;
  // Those that the manifest of an image's signatures names: kMostImageSignatures of them, maybe
  // none. FailedPrecondition when it is no such manifest.
  virtual kj::Promise<kj::Vector<ImageSignature>> signatures(
      kj::StringPtr name, kj::ArrayPtr<const kj::byte> manifest) = 0;
  // The facts that the answers of a platform state (machined/platforms). InvalidArgument when one
  // of its documents is none.
  virtual kj::Promise<KnownFacts> facts(kj::StringPtr platform,
                                        kj::ArrayPtr<const PlatformAnswer> answers) = 0;
  // The machine config in a platform's user data. None: it is empty, or for another system
  // (#cloud-config). InvalidArgument when it is not encoded as it must be, or is not text.
  virtual kj::Promise<kj::Maybe<kj::Array<char>>> userData(platforms::Encoding encoding,
                                                           kj::Array<char> content) = 0;
  // The body of the report that answers a goal state of Azure (machined/platforms/readers/azure.h).
  // InvalidArgument.
  virtual kj::Promise<kj::String> readyReport(kj::ArrayPtr<const char> goalState) = 0;
  // The machine config in the guest information of VMware
  // (machined/confined/parser/guest-info.h), and the facts that it states. FailedPrecondition when
  // this machine is not on VMware; Unavailable when its hypervisor does not give them.
  virtual kj::Promise<kj::Maybe<kj::Array<char>>> guestConfig() = 0;
  virtual kj::Promise<KnownFacts> guestFacts() = 0;
  // Takes the machine config out of it. The names of the variables that had one. The same errors,
  // also when the hypervisor does not change one.
  virtual kj::Promise<kj::Array<kj::String>> clearGuestConfig() = 0;
  // The digest, sha256:<hex>, of the image that the payload of a signature is about.
  // FailedPrecondition when it is not about one.
  virtual kj::Promise<kj::String> signedImage(kj::StringPtr name,
                                              kj::ArrayPtr<const kj::byte> payload) = 0;
};

}  // namespace talos::machined
