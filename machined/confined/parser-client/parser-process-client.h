// ForeignBytes by confined processes: one for each piece, replaced once if it dies or is late.
#pragma once

#include <kj/one-of.h>

#include "common/base/signal.h"
#include "machined/confined/parser-client/confined-process.h"
#include "machined/confined/parser-client/foreign-bytes.h"
#include "rpc/parse.capnp.h"

namespace talos::machined {

// The largest valid document takes a second to read.
constexpr auto kParserTimeout = 10 * kj::SECONDS;
// An RSA key of 4096 bits takes an emulated CPU up to half a minute.
constexpr auto kGenerateTimeout = 2 * kj::MINUTES;
// Each call transfers four bytes and exits the virtual machine: two million calls for the largest
// reply.
constexpr auto kGuestTimeout = 1 * kj::MINUTES;
constexpr auto kArchiveTimeout = 2 * kj::MINUTES;
// For a disk that spins up, and is read at some hundred places.
constexpr auto kDiskTimeout = 2 * kj::MINUTES;
// For a body in pieces: 1 GiB at 1 MiB/s. The caller watches its progress.
constexpr auto kPiecesTimeout = 18 * kj::MINUTES;
// Limit of parsers at a time; further pieces wait. A client in maintenance mode can cause one with
// every call.
constexpr unsigned kMostParsers = 8;
// Limit of lookups, counted separately: they wait for the network, and must not delay parsers. The
// timeout is longer than c-ares takes with three servers that do not answer: three tries, each
// twice as long as the one before.
constexpr unsigned kMostLookups = 16;
constexpr auto kLookupTimeout = 60 * kj::SECONDS;

class ConfinedForeign final : public ForeignBytes, private kj::TaskSet::ErrorHandler {
 public:
  explicit ConfinedForeign(kj::AsyncIoContext& io, ParserPrograms programs = {},
                           kj::Duration timeout = kParserTimeout)
      : io(io), programs(programs), timeout(timeout), reaping(*this) {}

  kj::Promise<CheckedConfig> config(kj::ArrayPtr<const char> document, kj::StringPtr file,
                                    ConfigRules rules) override;
  kj::Promise<RedactedConfigs> redact(kj::ArrayPtr<const char> from,
                                      kj::ArrayPtr<const char> to) override;
  kj::Promise<kj::Vector<GeneratedFile>> generate(rpc::GenerateRequest::Reader request,
                                                  kj::Maybe<config::Config::Reader> own) override;
  kj::Promise<kj::Array<char>> text(kj::Array<char> body) override;
  kj::Promise<OnDevice> superblock(kj::StringPtr device, ReadDevice read) override;
  kj::Promise<FoundOnDisk> disk(kj::StringPtr name, kj::AutoCloseFd fd) override;
  kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr host) override;
  kj::Promise<ntp::Verdict> ntp(NtpReply reply) override;
  kj::Promise<HttpAnswer> http(kj::Own<kj::AsyncIoStream> connection, const HttpSource& place,
                               kj::StringPtr authorities, kj::Date now,
                               HttpProgress& progress) override;
  kj::Promise<kj::Maybe<HttpSource>> pieces(kj::Own<kj::AsyncIoStream> connection,
                                            const HttpSource& place, kj::StringPtr authorities,
                                            kj::Date now, uint64_t from, HttpProgress& progress,
                                            HttpPieces& to) override;
  kj::Promise<kj::Array<kj::byte>> kms(kj::Own<kj::AsyncIoStream> connection, const KmsCall& call,
                                       HttpProgress& progress) override;
  kj::Promise<kj::Vector<ImagePart>> archive(kj::StringPtr name, uint64_t size,
                                             ReadDevice read) override;
  kj::Promise<kj::Vector<ImageSignature>> signatures(
      kj::StringPtr name, kj::ArrayPtr<const kj::byte> manifest) override;
  kj::Promise<kj::String> signedImage(kj::StringPtr name,
                                      kj::ArrayPtr<const kj::byte> payload) override;
  kj::Promise<kj::Vector<ExtensionConfig>> extensionConfigs(
      kj::ArrayPtr<const char> document) override;
  kj::Promise<kj::String> containerd(kj::ArrayPtr<const char> system,
                                     kj::ArrayPtr<const kj::String> fragments) override;
  kj::Promise<KnownFacts> facts(kj::StringPtr platform,
                                kj::ArrayPtr<const PlatformAnswer> answers) override;
  kj::Promise<kj::Maybe<kj::Array<char>>> userData(platforms::Encoding encoding,
                                                   kj::Array<char> content) override;
  kj::Promise<kj::String> readyReport(kj::ArrayPtr<const char> goalState) override;
  kj::Promise<kj::Maybe<kj::Array<char>>> guestConfig() override;
  kj::Promise<KnownFacts> guestFacts() override;
  kj::Promise<kj::Array<kj::String>> clearGuestConfig() override;

  unsigned started() const { return starts; }  // number of started processes

 private:
  struct Piece;
  class Turn;
  kj::AsyncIoContext& io;
  ParserPrograms programs;
  kj::Duration timeout;
  unsigned starts = 0;
  struct Places {
    unsigned most, taken = 0;
    Signal freed = {};
  };
  Places parsers{kMostParsers}, lookups{kMostLookups};
  kj::TaskSet reaping;

  // Rejects with InvalidArgument, naming the piece, if it failed two processes; with Unavailable if
  // the piece has only one try.
  kj::Promise<kj::Own<capnp::MessageReader>> ask(Piece piece);
  kj::Promise<kj::Own<capnp::MessageReader>> askUnless(const kj::Maybe<kj::Exception>& refused,
                                                       Piece piece);
  kj::Promise<kj::OneOf<kj::Own<capnp::MessageReader>, kj::String>> once(Piece& piece);
  kj::Promise<kj::Own<capnp::MessageReader>> converse(ConfinedChild& child, Piece& piece);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::machined
