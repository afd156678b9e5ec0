#include "machined/confined/parser-client/parser-process-client.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "common/memory/zeroize.h"
#include "common/net/dns-resolver.h"
#include "machined/confined/frames/frame-stream.h"
#include "machined/confined/parser-client/parser-messages.h"

namespace talos::machined {
namespace {

using Words = kj::Array<capnp::word>;

struct Wiped {
  Words words;
  explicit Wiped(Words words) : words(kj::mv(words)) {}
  Wiped(Wiped&&) = default;
  Wiped& operator=(Wiped&&) = default;
  ~Wiped() noexcept(false) { zeroize(words.asBytes()); }
};

// An answer in memory that is zeroed with this object.
class Answer final : public capnp::MessageReader {
 public:
  explicit Answer(Words words) : Answer(kj::heap<Wiped>(kj::mv(words))) {}
  kj::ArrayPtr<const capnp::word> getSegment(unsigned id) override { return inner.getSegment(id); }

 private:
  kj::Own<Wiped> memory;
  capnp::FlatArrayMessageReader inner;

  explicit Answer(kj::Own<Wiped> m)
      : capnp::MessageReader(readerOptions(m->words.size())),
        memory(kj::mv(m)),
        inner(memory->words) {}
};

bool isInterim(rpc::ParseAnswer::Reader answer) {
  return answer.isWanted() || answer.isProgress() || answer.isBodyStart() || answer.isPiece();
}

Words requestOf(kj::FunctionParam<void(rpc::ParseRequest::Builder)> fill) {
  SecretMessage message;
  fill(message.initRoot<rpc::ParseRequest>());
  return frameOf(message);
}

auto remembering(kj::Maybe<kj::Exception>& refused) {
  return [&refused](kj::Exception&& e) -> kj::Promise<Words> {
    refused = kj::cp(e);
    return kj::mv(e);
  };
}

}  // namespace

// One request: its input, the description for messages, the limits.
struct ConfinedForeign::Piece {
  kj::String what;  // "machine config", for messages
  Wiped request;
  kj::Duration timeout;
  int connection = -1;  // one process uses it up, so there is no second try
  ParserRights rights = ParserRights::kNone;
  unsigned mostInterim = kMostInterim;
  // Returns the reply to a message that is not the answer yet; empty if there is no reply.
  kj::Function<kj::Promise<Words>(rpc::ParseAnswer::Reader)> interim =
      [](rpc::ParseAnswer::Reader) -> kj::Promise<Words> { return Words(); };
};

// One of the processes that may run at a time.
class ConfinedForeign::Turn {
 public:
  explicit Turn(Places& places) : places(places) { ++places.taken; }
  ~Turn() {
    --places.taken;
    places.freed.raise();
  }
  KJ_DISALLOW_COPY_AND_MOVE(Turn);

 private:
  Places& places;
};

void ConfinedForeign::taskFailed(kj::Exception&& e) {
  KJ_LOG(ERROR, "cannot reap a parser", e);
}

kj::Promise<kj::Own<capnp::MessageReader>> ConfinedForeign::converse(ConfinedChild& child,
                                                                     Piece& piece) {
  co_await writeFrame(child.stream(), piece.request.words);
  for (unsigned count = 0; count < piece.mostInterim; ++count) {
    kj::Own<capnp::MessageReader> message = kj::heap<Answer>(co_await readFrame(child.stream()));
    auto answer = message->getRoot<rpc::ParseAnswer>();
    if (!isInterim(answer)) co_return kj::mv(message);
    Wiped reply(co_await piece.interim(answer));
    if (reply.words.size() > 0) co_await writeFrame(child.stream(), reply.words);
  }
  KJ_FAIL_REQUIRE("no answer among its first messages");
}

// Returns the answer, or how the process ended.
kj::Promise<kj::OneOf<kj::Own<capnp::MessageReader>, kj::String>> ConfinedForeign::once(
    Piece& piece) {
  using Result = kj::OneOf<kj::Own<capnp::MessageReader>, kj::String>;
  auto child = kj::heap<ConfinedChild>(io, programs, piece.connection, piece.timeout, piece.rights);
  ++starts;
  // Dropping this promise ends the process, too.
  kj::Maybe<kj::Own<ConfinedChild>> left;
  auto& running = *child;
  left = kj::mv(child);
  KJ_DEFER({
    KJ_IF_MAYBE (c, left) reaping.add(ConfinedChild::end(kj::mv(*c)).ignoreResult());
  });
  bool late = false, damaged = false;
  kj::Maybe<kj::Own<capnp::MessageReader>> answer;
  auto deadline =
      io.provider->getTimer().afterDelay(piece.timeout).then([&late]() { late = true; });
  co_await converse(running, piece)
      .then([&answer](kj::Own<capnp::MessageReader> a) { answer = kj::mv(a); },
            [&damaged](kj::Exception&& e) {
              damaged = e.getType() != kj::Exception::Type::DISCONNECTED;
            })
      .exclusiveJoin(kj::mv(deadline));
  KJ_IF_MAYBE (a, answer) co_return Result(kj::mv(*a));
  auto ending = ConfinedChild::end(kj::mv(KJ_ASSERT_NONNULL(left)));
  left = nullptr;
  auto end = co_await ending;
  if (late) end = kj::str("no answer within ", piece.timeout / kj::MILLISECONDS, " ms");
  if (damaged) end = kj::str("its answer was damaged");
  co_return Result(kj::mv(end));
}

kj::Promise<kj::Own<capnp::MessageReader>> ConfinedForeign::ask(Piece piece) {
  bool lookup = piece.rights == ParserRights::kNames;
  auto& places = lookup ? lookups : parsers;
  while (places.taken >= places.most) co_await places.freed.next();
  Turn turn(places);
  kj::String ends[2];
  unsigned tries =
      piece.connection >= 0 || lookup ? 1 : 2;  // a lookup must not take twice the time
  for (unsigned i = 0; i < tries; ++i) {
    auto result = co_await once(piece);
    KJ_IF_MAYBE (answer, result.tryGet<kj::Own<capnp::MessageReader>>()) co_return kj::mv(*answer);
    ends[i] = kj::mv(result.get<kj::String>());
  }
  auto how = tries == 1           ? kj::str(ends[0])
             : ends[0] == ends[1] ? kj::str("twice ", ends[0])
                                  : kj::str("first ", ends[0], ", then ", ends[1]);
  fail(tries == 1 ? ErrorKind::kUnavailable : ErrorKind::kInvalidArgument,
       kj::str("the parser was killed while reading ", piece.what, ": ", how));
}

kj::Promise<CheckedConfig> ConfinedForeign::config(kj::ArrayPtr<const char> document,
                                                   kj::StringPtr file, ConfigRules rules) {
  // A copy, because the caller may drop the document first.
  auto copy = kj::heapArray(document);
  KJ_DEFER(zeroize(copy));
  Piece piece{
      kj::str(file),
      Wiped(requestOf([&](rpc::ParseRequest::Builder out) { fillConfig(out, copy, file, rules); })),
      timeout};
  auto answer = co_await ask(kj::mv(piece));
  co_return readConfig(answer->getRoot<rpc::ParseAnswer>(), copy);
}

kj::Promise<RedactedConfigs> ConfinedForeign::redact(kj::ArrayPtr<const char> from,
                                                     kj::ArrayPtr<const char> to) {
  // A secret of one character becomes "*** (old)".
  auto most = 16 * kj::max(from.size(), to.size()) + 1024;
  Piece piece{kj::str("two machine configs"),
              Wiped(requestOf([&](rpc::ParseRequest::Builder out) { fillRedact(out, from, to); })),
              timeout};
  auto answer = co_await ask(kj::mv(piece));
  co_return readRedacted(answer->getRoot<rpc::ParseAnswer>(), most);
}

kj::Promise<kj::Vector<GeneratedFile>> ConfinedForeign::generate(
    rpc::GenerateRequest::Reader request, kj::Maybe<config::Config::Reader> own) {
  Piece piece{
      kj::str("the request for new configs"),
      Wiped(requestOf([&](rpc::ParseRequest::Builder out) { fillGenerate(out, request, own); })),
      kGenerateTimeout};
  auto answer = co_await ask(kj::mv(piece));
  co_return readGenerated(answer->getRoot<rpc::ParseAnswer>());
}

kj::Promise<kj::Array<char>> ConfinedForeign::text(kj::Array<char> body) {
  Piece piece{
      kj::str("the data of a config source"),
      Wiped(requestOf([&](rpc::ParseRequest::Builder out) { out.setText(body.asBytes()); })),
      timeout};
  zeroize(body);
  auto answer = co_await ask(kj::mv(piece));
  co_return readText(answer->getRoot<rpc::ParseAnswer>());
}

kj::Promise<ForeignBytes::OnDevice> ConfinedForeign::superblock(kj::StringPtr device,
                                                                ReadDevice read) {
  Piece piece{kj::str(device),
              Wiped(requestOf([](rpc::ParseRequest::Builder out) { out.setSuperblock(); })),
              timeout};
  unsigned reads = 0;
  piece.interim = [&read, &reads](rpc::ParseAnswer::Reader answer) -> kj::Promise<Words> {
    KJ_REQUIRE(answer.isWanted() && answer.getWanted().getSize() <= kMostSuperblockBytes &&
                   ++reads <= 2 * kMostSuperblockReads,  // of both tries
               "too many reads for a superblock");
    auto wanted = answer.getWanted();
    return read(wanted.getOffset(), wanted.getSize()).then([](kj::Array<const kj::byte> bytes) {
      return requestOf([&](rpc::ParseRequest::Builder out) { out.setBytes(bytes); });
    });
  };
  auto answer = co_await ask(kj::mv(piece));
  co_return readSuperblockAnswer(answer->getRoot<rpc::ParseAnswer>());
}

kj::Promise<FoundOnDisk> ConfinedForeign::disk(kj::StringPtr name, kj::AutoCloseFd fd) {
  Piece piece{kj::str(name),
              Wiped(requestOf([](rpc::ParseRequest::Builder out) { out.setDisk(); })),
              kDiskTimeout};
  piece.connection = fd;
  piece.rights = ParserRights::kDisk;
  auto answer = co_await ask(kj::mv(piece));
  co_return readFoundOnDisk(answer->getRoot<rpc::ParseAnswer>());
}

kj::Promise<kj::Array<kj::String>> ConfinedForeign::resolve(kj::StringPtr host) {
  KJ_IF_MAYBE (address, asAddress(host)) co_return kj::arr(kj::mv(*address));
  Piece piece{kj::str("the addresses of ", host),
              Wiped(requestOf([&](rpc::ParseRequest::Builder out) { out.setLookUp(host); })),
              kLookupTimeout};
  piece.rights = ParserRights::kNames;
  auto answer = co_await ask(kj::mv(piece));
  co_return readAddresses(answer->getRoot<rpc::ParseAnswer>());
}

kj::Promise<ntp::Verdict> ConfinedForeign::ntp(NtpReply reply) {
  Piece piece{kj::str("the answer of a time server"),
              Wiped(requestOf([&](rpc::ParseRequest::Builder out) { fillNtp(out, reply); })),
              timeout};
  auto verdict = ask(kj::mv(piece)).then([](kj::Own<capnp::MessageReader> answer) {
    return readVerdict(answer->getRoot<rpc::ParseAnswer>());
  });
  return verdict.catch_(
      [](kj::Exception&& e) -> ntp::Verdict { return ntp::Rejected{messageOf(e)}; });
}

kj::Promise<HttpAnswer> ConfinedForeign::http(kj::Own<kj::AsyncIoStream> connection,
                                              const HttpSource& place, kj::StringPtr authorities,
                                              kj::Date now, HttpProgress& progress) {
  HttpSource from;
  from.secure = place.secure;
  Piece piece{kj::str("the answer of ", place.shown),
              Wiped(requestOf(
                  [&](rpc::ParseRequest::Builder out) { fillHttp(out, place, authorities, now); })),
              timeout};
  piece.connection = KJ_REQUIRE_NONNULL(connection->getFd(), "not a socket");
  piece.interim = [&progress](rpc::ParseAnswer::Reader answer) -> kj::Promise<Words> {
    KJ_REQUIRE(answer.isProgress(), "not a progress message of a fetch");
    readProgress(answer, progress);
    return Words();
  };
  auto answer = co_await ask(kj::mv(piece));
  co_return readHttp(answer->getRoot<rpc::ParseAnswer>(), from);
}

// An error of the brain itself ends the process, and is reported instead of the process's end.
kj::Promise<kj::Own<capnp::MessageReader>> ConfinedForeign::askUnless(
    const kj::Maybe<kj::Exception>& refused, Piece piece) {
  return ask(kj::mv(piece))
      .catch_([&refused](kj::Exception&& e) -> kj::Promise<kj::Own<capnp::MessageReader>> {
        KJ_IF_MAYBE (r, refused) return kj::cp(*r);
        return kj::mv(e);
      });
}

kj::Promise<kj::Maybe<HttpSource>> ConfinedForeign::pieces(kj::Own<kj::AsyncIoStream> connection,
                                                           const HttpSource& place,
                                                           kj::StringPtr authorities, kj::Date now,
                                                           uint64_t from, HttpProgress& progress,
                                                           HttpPieces& to) {
  HttpSource requested;
  requested.secure = place.secure;
  Piece piece{kj::str("the answer of ", place.shown),
              Wiped(requestOf([&](rpc::ParseRequest::Builder out) {
                fillPieces(out, place, authorities, now, from);
              })),
              kPiecesTimeout};
  piece.connection = KJ_REQUIRE_NONNULL(connection->getFd(), "not a socket");
  piece.mostInterim = kj::maxValue;
  // An error of the receiver of the pieces; the process is not to blame for it.
  kj::Maybe<kj::Exception> refused;
  piece.interim = [&](rpc::ParseAnswer::Reader answer) -> kj::Promise<Words> {
    return kj::evalNow([&]() { return takePiece(answer, progress, to); })
        .then([]() -> kj::Promise<Words> { return Words(); }, remembering(refused));
  };
  auto answer = co_await askUnless(refused, kj::mv(piece));
  co_return readPiecesEnd(answer->getRoot<rpc::ParseAnswer>(), requested);
}

kj::Promise<kj::Array<kj::byte>> ConfinedForeign::kms(kj::Own<kj::AsyncIoStream> connection,
                                                      const KmsCall& call, HttpProgress& progress) {
  bool seals = call.userData.size() == 0;
  Piece piece{kj::str("the answer of ", call.authority),
              Wiped(requestOf([&](rpc::ParseRequest::Builder out) { fillKms(out, call); })),
              kKmsTimeout};
  piece.connection = KJ_REQUIRE_NONNULL(connection->getFd(), "not a socket");
  piece.interim = [&progress](rpc::ParseAnswer::Reader answer) -> kj::Promise<Words> {
    KJ_REQUIRE(answer.isProgress(), "not a progress message of a call");
    readProgress(answer, progress);
    return Words();
  };
  auto answer = co_await ask(kj::mv(piece));
  co_return readKms(answer->getRoot<rpc::ParseAnswer>(), seals);
}

kj::Promise<kj::Vector<ImagePart>> ConfinedForeign::archive(kj::StringPtr name, uint64_t size,
                                                            ReadDevice read) {
  Piece piece{kj::str(name),
              Wiped(requestOf([size](rpc::ParseRequest::Builder out) { out.setArchive(size); })),
              kArchiveTimeout};
  piece.mostInterim = kMostArchiveReads + 1;
  // An error of the disk with the archive; the archive is not to blame for it.
  kj::Maybe<kj::Exception> refused;
  piece.interim = [&](rpc::ParseAnswer::Reader answer) -> kj::Promise<Words> {
    KJ_REQUIRE(answer.isWanted() && answer.getWanted().getSize() <= kMostSuperblockBytes,
               "too many reads for an archive");
    auto wanted = answer.getWanted();
    return read(wanted.getOffset(), wanted.getSize())
        .then(
            [](kj::Array<const kj::byte> bytes) -> kj::Promise<Words> {
              return requestOf([&](rpc::ParseRequest::Builder out) { out.setBytes(bytes); });
            },
            remembering(refused));
  };
  auto answer = co_await askUnless(refused, kj::mv(piece));
  co_return readArchive(answer->getRoot<rpc::ParseAnswer>(), size);
}

kj::Promise<kj::Vector<ImageSignature>> ConfinedForeign::signatures(
    kj::StringPtr name, kj::ArrayPtr<const kj::byte> manifest) {
  Piece piece{
      kj::str(name),
      Wiped(requestOf([&](rpc::ParseRequest::Builder out) { out.setSignatures(manifest); })),
      timeout};
  auto answer = co_await ask(kj::mv(piece));
  co_return readSignatures(answer->getRoot<rpc::ParseAnswer>());
}

kj::Promise<kj::String> ConfinedForeign::signedImage(kj::StringPtr name,
                                                     kj::ArrayPtr<const kj::byte> payload) {
  Piece piece{
      kj::str(name),
      Wiped(requestOf([&](rpc::ParseRequest::Builder out) { out.setSignedImage(payload); })),
      timeout};
  auto answer = co_await ask(kj::mv(piece));
  co_return readSignedImage(answer->getRoot<rpc::ParseAnswer>());
}

kj::Promise<kj::String> ConfinedForeign::containerd(kj::ArrayPtr<const char> system,
                                                    kj::ArrayPtr<const kj::String> fragments) {
  Piece piece{kj::str("the configuration of containerd"),
              Wiped(requestOf(
                  [&](rpc::ParseRequest::Builder out) { fillContainerd(out, system, fragments); })),
              timeout};
  auto answer = co_await ask(kj::mv(piece));
  auto text = readText(answer->getRoot<rpc::ParseAnswer>());
  KJ_DEFER(zeroize(text));
  co_return kj::heapString(text.asPtr());
}

kj::Promise<kj::Vector<ExtensionConfig>> ConfinedForeign::extensionConfigs(
    kj::ArrayPtr<const char> document) {
  Piece piece{kj::str("the documents of system extensions"),
              Wiped(requestOf([&](rpc::ParseRequest::Builder out) {
                out.setExtensionConfigs(document.asBytes());
              })),
              timeout};
  auto answer = co_await ask(kj::mv(piece));
  co_return readExtensionConfigs(answer->getRoot<rpc::ParseAnswer>());
}

kj::Promise<KnownFacts> ConfinedForeign::facts(kj::StringPtr platform,
                                               kj::ArrayPtr<const PlatformAnswer> answers) {
  Piece piece{
      kj::str("the metadata of ", platform),
      Wiped(requestOf([&](rpc::ParseRequest::Builder out) { fillFacts(out, platform, answers); })),
      timeout};
  auto answer = co_await ask(kj::mv(piece));
  co_return readFacts(answer->getRoot<rpc::ParseAnswer>());
}

kj::Promise<kj::Maybe<kj::Array<char>>> ConfinedForeign::userData(platforms::Encoding encoding,
                                                                  kj::Array<char> content) {
  KJ_DEFER(zeroize(content));
  Piece piece{kj::str("the user data"), Wiped(requestOf([&](rpc::ParseRequest::Builder out) {
                fillUserData(out, encoding, content);
              })),
              timeout};
  auto answer = co_await ask(kj::mv(piece));
  co_return readUserData(answer->getRoot<rpc::ParseAnswer>());
}

kj::Promise<kj::String> ConfinedForeign::readyReport(kj::ArrayPtr<const char> goalState) {
  Piece piece{kj::str("the goal state of Azure"),
              Wiped(requestOf([&](rpc::ParseRequest::Builder out) {
                out.setReadyReport(goalState.asBytes());
              })),
              timeout};
  auto answer = co_await ask(kj::mv(piece));
  co_return readReport(answer->getRoot<rpc::ParseAnswer>());
}

kj::Promise<kj::Maybe<kj::Array<char>>> ConfinedForeign::guestConfig() {
  Piece piece{kj::str("the guest information of VMware"),
              Wiped(requestOf([](rpc::ParseRequest::Builder out) { out.setGuestConfig(); })),
              kGuestTimeout};
  auto answer = co_await ask(kj::mv(piece));
  co_return readUserData(answer->getRoot<rpc::ParseAnswer>());
}

kj::Promise<KnownFacts> ConfinedForeign::guestFacts() {
  Piece piece{kj::str("the guest information of VMware"),
              Wiped(requestOf([](rpc::ParseRequest::Builder out) { out.setGuestFacts(); })),
              kGuestTimeout};
  auto answer = co_await ask(kj::mv(piece));
  co_return readFacts(answer->getRoot<rpc::ParseAnswer>());
}

kj::Promise<kj::Array<kj::String>> ConfinedForeign::clearGuestConfig() {
  Piece piece{kj::str("the guest information of VMware"),
              Wiped(requestOf([](rpc::ParseRequest::Builder out) { out.setClearGuestConfig(); })),
              kGuestTimeout};
  auto answer = co_await ask(kj::mv(piece));
  co_return readCleared(answer->getRoot<rpc::ParseAnswer>());
}

}  // namespace talos::machined
