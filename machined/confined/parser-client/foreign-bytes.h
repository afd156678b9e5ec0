// The interface to the parsing of foreign bytes in processes without rights.
//
// The brain is root and holds every secret of the node. A separate process
// (machined/confined/parser) parses bytes from outside: machine configs, answers of web servers,
// datagrams on NTP ports, the first bytes of disks. It is started for one such piece, gets nothing
// else, answers and exits. It has its own user, no capability, no file, cannot make a socket, a
// thread or a process, and cannot send signals
// (machined/confined/parser-client/confined-process.h). So a document that takes over its process
// can only lie about itself. It could have had any content in the first place: a config is as
// powerful as its author is trusted, an NTP answer is not authenticated anyway, and a label is only
// a name. It cannot learn about another document, because no process gets two. There are three
// exceptions. With https the process checks the server's certificate, so a server that took it over
// in the handshake could pretend to be another server. A process that resolves a name has IP
// sockets, so an attacker in it can use the network as the node, without any of the node's keys. A
// process that looks at a disk reads all of the disk, and sysfs, and has no way to pass this on.
//
// The answers are foreign too. Each is one Cap'n Proto message of bounded size; this unit checks
// every number against its range and makes every text one printable line, before other code gets
// them. A malformed answer counts as no answer.
//
// A process that dies, or does not answer in time, is replaced once, immediately (but not if it had
// a connection or resolved a name); a piece that fails all its processes is refused with an error
// that says so. The brain neither crashes nor hangs. Nothing is kept: when the brain dies, the
// piece being parsed is lost, and so is the process.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>

#include "common/config/config.h"
#include "common/net/ntp.h"
#include "machined/confined/parser-client/config-url-parameter.h"
#include "machined/confined/parser-client/extension-config.h"
#include "machined/confined/parser-client/known-config.h"
#include "machined/confined/parser-client/known-facts.h"
#include "machined/confined/parser-client/probed-file-system.h"
#include "machined/platforms/platform.h"
#include "rpc/configuration.capnp.h"

namespace talos::machined {

constexpr size_t kMostConfigBytes = 4u << 20;
// Limit for the view of the largest config: a list of small items takes about eight times its text.
constexpr size_t kMostAnswerBytes = 32u << 20;
constexpr size_t kMostSuperblockBytes = 64u << 10;
constexpr unsigned kMostPartitions = 256, kMostVolumes = 64;  // of a disk, that are named
constexpr unsigned kMostAddresses = 64;                       // of a name: more than callers try
constexpr unsigned kMostSuperblockReads = 16;  // including those of the partition table
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
  struct Place {
    unsigned number = 0;
    uint64_t begin = 0, bytes = 0;
    kj::String id, name;  // either may be empty
    uint64_t attributes = 0;
  };
  kj::Maybe<kj::String> table;        // "gpt", "dos"
  kj::Vector<kj::String> partitions;  // names, or numbers of partitions without a name
  kj::String tableId;                 // may be empty
  kj::Vector<Place> places;           // of the i-th partition; empty in the installer
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

// A file that was generated for a cluster.
struct GeneratedFile {
  kj::String name, content;
};

// The answer of a web server: a body that could be a config, or the target of a redirect.
using HttpAnswer = kj::OneOf<kj::Array<char>, HttpSource>;

// Progress of an attempt, for the message after a timeout.
struct HttpProgress {
  kj::String doing;
  uint64_t received = 0;
};

// Receives a body in pieces as they come.
class HttpPieces {
 public:
  virtual ~HttpPieces() noexcept(false) = default;
  // Announces that the body starts at byte `from`: 0 when the server starts at the beginning.
  // `size`: of the whole body; 0 when the server does not say. Throws the error that the fetch
  // fails with.
  virtual void begins(uint64_t from, uint64_t size) = 0;
  virtual kj::Promise<void> piece(kj::Array<kj::byte> bytes) = 0;
};
constexpr size_t kMostPieceBytes = 64u << 10;

// A file of an installer image, in an archive.
struct ImagePart {
  kj::String name;
  uint64_t offset, size;
};
// Files that an installer image must have in usr/install.
constexpr kj::StringPtr kImageFiles[] = {"vmlinuz"_kj, "initramfs"_kj, "rootfs.sqsh"_kj,
                                         "version"_kj, "SHA256SUMS"_kj};
// Optional: images of earlier releases lack it.
constexpr kj::StringPtr kConfigKeysFile = "config-keys"_kj;
// Limit of reads, each of kMostSuperblockBytes: more than an archive of kMostImageBytes needs.
constexpr unsigned kMostArchiveReads = 20'000;
constexpr uint64_t kMostImageBytes = uint64_t{1} << 30;

// One of the signatures of an image in a registry (machined/confined/parser/image-signature.h).
struct ImageSignature {
  kj::String payload;  // digest of the signed payload: sha256:<hex>
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

// The rules for a config: those of the machine, and those of a new config or of one that the node
// may have kept from an earlier release (problemsOfKept of common/config/rules/config-check.h).
struct ConfigRules {
  ConfigRules(config::Mode mode, bool kept = false) : mode(mode), kept(kept) {}
  config::Mode mode;
  bool kept;
};

// A call of the server with the keys of volumes (KMS). Nothing of it needs to outlive the call.
struct KmsCall {
  bool secure = false;  // TLS
  kj::StringPtr host, authority;
  kj::StringPtr authorities = nullptr;            // PEM, for TLS
  kj::StringPtr node = nullptr;                   // UUID of this machine
  kj::ArrayPtr<const kj::byte> secret = nullptr;  // kKmsSecret bytes that are to be sealed
  kj::StringPtr userData = nullptr;               // else what the token of a sealed key has
};
constexpr size_t kKmsSecret = 32;
// Limits of a sealed key, and of the JSON that has it. The reference server seals to 60 bytes.
constexpr size_t kMostKmsSealed = 4u << 10, kMostKmsUserData = 8u << 10;
constexpr auto kKmsTimeout = 10 * kj::SECONDS;

class ForeignBytes {
 public:
  virtual ~ForeignBytes() noexcept(false) = default;

  // Reads and checks a config. The result holds every mistake; rejects only if no process could
  // read it.
  virtual kj::Promise<CheckedConfig> config(kj::ArrayPtr<const char> document, kj::StringPtr file,
                                            ConfigRules rules) = 0;
  // Removes the secrets from two versions of a config (common/config/config-redact.h).
  virtual kj::Promise<RedactedConfigs> redact(kj::ArrayPtr<const char> from,
                                              kj::ArrayPtr<const char> to) = 0;
  // Generates configs and a talosconfig, for the cluster of `own` or for a new one. Throws
  // InvalidArgument for an invalid request. The generator reads its own output again.
  virtual kj::Promise<kj::Vector<GeneratedFile>> generate(
      rpc::GenerateRequest::Reader request, kj::Maybe<config::Config::Reader> own) = 0;
  // Unpacks gzip. If the body is not text at all, rejects with the kind of data that it is.
  virtual kj::Promise<kj::Array<char>> text(kj::Array<char> body) = 0;
  // Reads from a device: at most kMostSuperblockReads times kMostSuperblockBytes.
  using ReadDevice =
      kj::Function<kj::Promise<kj::Array<const kj::byte>>(uint64_t offset, size_t size)>;
  struct OnDevice {
    kj::Maybe<Superblock> content;
    bool lostTable = false;  // only without content: machined/confined/parser/partition-table.h
  };
  virtual kj::Promise<OnDevice> superblock(kj::StringPtr device, ReadDevice read) = 0;
  // Finds the content of the disk with the descriptor, which must be read-only. Unavailable when
  // the disk cannot be read.
  virtual kj::Promise<FoundOnDisk> disk(kj::StringPtr name, kj::AutoCloseFd fd) = 0;
  // Returns the addresses of a host name, best first, never empty; for an address the address
  // itself. Unavailable naming the host.
  virtual kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr host) = 0;
  // Never rejects.
  virtual kj::Promise<ntp::Verdict> ntp(NtpReply reply) = 0;
  // Makes one GET over this connection, which must be a socket. `progress` must outlive the
  // promise.
  virtual kj::Promise<HttpAnswer> http(kj::Own<kj::AsyncIoStream> connection,
                                       const HttpSource& place, kj::StringPtr authorities,
                                       kj::Date now, HttpProgress& progress) = 0;
  // Fetches a body of any size, from byte `from` on if the server supports this. Resolves when all
  // of it has come, or to the target of a redirect. NotFound and PermissionDenied as the server
  // says; Unavailable for temporary errors. Both references must outlive the promise.
  virtual kj::Promise<kj::Maybe<HttpSource>> pieces(kj::Own<kj::AsyncIoStream> connection,
                                                    const HttpSource& place,
                                                    kj::StringPtr authorities, kj::Date now,
                                                    uint64_t from, HttpProgress& progress,
                                                    HttpPieces& to) = 0;
  // Seals or unseals a key over this connection to a key server, which must be a socket. Returns
  // the sealed key, 1 to kMostKmsSealed bytes, or the key, kKmsSecret bytes; zeroed when it is
  // freed. Rejects with the server's error, FailedPrecondition if `userData` has no sealed key.
  // `progress` must outlive the promise.
  virtual kj::Promise<kj::Array<kj::byte>> kms(kj::Own<kj::AsyncIoStream> connection,
                                               const KmsCall& call, HttpProgress& progress) = 0;
  // Finds the files of an installer image in an archive of `size` bytes: those of kImageFiles, then
  // kConfigKeysFile if the image has it. `read` as above, kMostArchiveReads times.
  // FailedPrecondition if the archive is not an installer image.
  virtual kj::Promise<kj::Vector<ImagePart>> archive(kj::StringPtr name, uint64_t size,
                                                     ReadDevice read) = 0;
  // Returns the signatures that the manifest of an image's signatures names: 0 to
  // kMostImageSignatures. FailedPrecondition if it is not such a manifest.
  virtual kj::Promise<kj::Vector<ImageSignature>> signatures(
      kj::StringPtr name, kj::ArrayPtr<const kj::byte> manifest) = 0;
  // Extracts the facts from the answers of a platform (machined/platforms). InvalidArgument if one
  // of the documents is invalid.
  virtual kj::Promise<KnownFacts> facts(kj::StringPtr platform,
                                        kj::ArrayPtr<const PlatformAnswer> answers) = 0;
  // Returns the machine config in a platform's user data; nullptr if the data is empty, or for
  // another system (#cloud-config). InvalidArgument if its encoding is invalid, or it is not text.
  virtual kj::Promise<kj::Maybe<kj::Array<char>>> userData(platforms::Encoding encoding,
                                                           kj::Array<char> content) = 0;
  // Returns the body of the report that answers a goal state of Azure
  // (machined/platforms/readers/file-platforms.h). InvalidArgument.
  virtual kj::Promise<kj::String> readyReport(kj::ArrayPtr<const char> goalState) = 0;
  // Returns the machine config, and guestFacts() the facts, in the guest information of VMware
  // (machined/confined/parser/guest-info.h). FailedPrecondition when this machine is not on VMware;
  // Unavailable when its hypervisor does not give them.
  virtual kj::Promise<kj::Maybe<kj::Array<char>>> guestConfig() = 0;
  virtual kj::Promise<KnownFacts> guestFacts() = 0;
  // Removes the machine config from the guest information. Returns the names of the variables that
  // had one. The same errors, also when the hypervisor does not change a variable.
  virtual kj::Promise<kj::Array<kj::String>> clearGuestConfig() = 0;
  // Returns the digest, sha256:<hex>, of the image that a signature's payload names.
  // FailedPrecondition if the payload names no image.
  virtual kj::Promise<kj::String> signedImage(kj::StringPtr name,
                                              kj::ArrayPtr<const kj::byte> payload) = 0;
  // Returns `system`, a part of containerd's configuration, with the fragments of the config merged
  // into it (common/config/rules/containerd-part.h). InvalidArgument.
  virtual kj::Promise<kj::String> containerd(kj::ArrayPtr<const char> system,
                                             kj::ArrayPtr<const kj::String> fragments) = 0;
  // Returns the documents of a machine config for the services of system extensions, at most
  // kMostExtensionConfigs.
  virtual kj::Promise<kj::Vector<ExtensionConfig>> extensionConfigs(
      kj::ArrayPtr<const char> document) = 0;
};

}  // namespace talos::machined
