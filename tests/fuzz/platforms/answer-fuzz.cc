// link: machined-confined-parser-client
// The answers of a process that parses foreign bytes once a document has taken it over: any
// message, read as the answer to every kind of request. The results keep the promises of
// foreign-bytes.h.
#include <kj/debug.h>
#include <string.h>

#include "common/net/ip.h"
#include "machined/confined/frames/frame.h"
#include "machined/confined/parser-client/parser-messages.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

using namespace talos;
using namespace talos::machined;

void requireLine(kj::StringPtr text) {
  for (unsigned char c : text) KJ_ASSERT(c >= 0x20 && c != 0x7f, "not one printable line", text);
}

void requirePlace(const HttpSource& place) {
  KJ_ASSERT(place.port != 0 && place.host.size() > 0 && place.target.startsWith("/"));
  for (unsigned char c : kj::str(place.authority, place.target)) KJ_ASSERT(c > ' ' && c != 0x7f);
  requireLine(place.shown);
}

void readAsConfig(rpc::ParseAnswer::Reader answer) {
  auto checked = readConfig(answer, "machine: {}"_kj.asArray());
  for (auto& line : checked.errors) requireLine(line);
  for (auto& line : checked.warnings) requireLine(line);
  // It is ours now: all of it can be read, whatever its pointers were.
  KJ_ASSERT(checked.config.get().totalSize().wordCount <= kMostFrameWords);
  for (auto san : checked.config.get().getMachine().getCertSANs()) KJ_ASSERT(san.cStr() != nullptr);
}

void readAsVerdict(rpc::ParseAnswer::Reader answer) {
  auto verdict = readVerdict(answer);
  if (verdict.is<ntp::Sample>()) {
    KJ_ASSERT(verdict.get<ntp::Sample>().error() <= ntp::kMaxError);
  } else if (verdict.is<ntp::KissOfDeath>()) {
    requireLine(verdict.get<ntp::KissOfDeath>().code);
  } else {
    requireLine(verdict.get<ntp::Rejected>().error);
  }
}

void readAsAddresses(rpc::ParseAnswer::Reader answer) {
  auto addresses = readAddresses(answer);
  KJ_ASSERT(addresses.size() > 0 && addresses.size() <= kMostAddresses);
  for (auto& address : addresses) KJ_ASSERT(Ip::parse(address) != nullptr, address);
}

void readAsHttp(rpc::ParseAnswer::Reader answer, bool secure) {
  HttpSource from;
  from.secure = secure;
  auto got = readHttp(answer, from);
  if (!got.is<HttpSource>()) return;
  requirePlace(got.get<HttpSource>());
  KJ_ASSERT(got.get<HttpSource>().secure || !secure, "from https to http");
}

void readAsSuperblock(rpc::ParseAnswer::Reader answer) {
  auto device = readSuperblockAnswer(answer);
  KJ_IF_MAYBE (found, device.content) {
    requireLine(found->label);
    KJ_ASSERT(nameOf(found->type) != "unknown"_kj);
  }
}

void readAsArchive(rpc::ParseAnswer::Reader answer) {
  for (auto& part : readArchive(answer, 1000)) {
    KJ_ASSERT(part.offset <= 1000 && part.size <= 1000 - part.offset, "beside the archive");
  }
}

void readAsSignatures(rpc::ParseAnswer::Reader answer) {
  auto signatures = readSignatures(answer);
  KJ_ASSERT(signatures.size() <= kMostImageSignatures);
  for (auto& signature : signatures) {
    KJ_ASSERT(isSha256(signature.payload) && signature.signature.size() <= kMostImageSignature);
  }
}

void readAsPieces(rpc::ParseAnswer::Reader answer) {
  struct Taken final : HttpPieces {
    void begins(uint64_t, uint64_t) override {}
    kj::Promise<void> piece(kj::Array<kj::byte> bytes) override {
      KJ_ASSERT(bytes.size() <= kMostPieceBytes, "too large a piece");
      return kj::READY_NOW;
    }
  } taken;
  HttpProgress progress;
  if (answer.isProgress() || answer.isBodyStart() || answer.isPiece()) {
    takePiece(answer, progress, taken);
    requireLine(progress.doing);
  }
  HttpSource from;
  from.secure = true;
  KJ_IF_MAYBE (moved, readPiecesEnd(answer, from)) {
    requirePlace(*moved);
    KJ_ASSERT(moved->secure, "from https to http");
  }
}

}  // namespace

FUZZ_TARGET(answer) {
  auto words = kj::heapArray<capnp::word>(size / sizeof(capnp::word));
  memcpy(words.begin(), data, words.asBytes().size());
  auto read = [&](kj::FunctionParam<void(rpc::ParseAnswer::Reader)> as) {
    // Anything may be thrown, and nothing else may happen.
    (void)kj::runCatchingExceptions([&]() {
      capnp::FlatArrayMessageReader message(words, readerOptions(words.size()));
      as(message.getRoot<rpc::ParseAnswer>());
    });
  };
  // An assertion that throws here is a finding all the same.
  bool broken = false;
  auto check = [&](kj::FunctionParam<void(rpc::ParseAnswer::Reader)> as) {
    read([&](rpc::ParseAnswer::Reader answer) {
      KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { as(answer); })) {
        broken = broken || strstr(e->getFile(), "answer-fuzz") != nullptr;
      }
    });
  };
  check(readAsConfig);
  check([](rpc::ParseAnswer::Reader answer) { readRedacted(answer, 64); });
  check([](rpc::ParseAnswer::Reader answer) { readText(answer); });
  check([](rpc::ParseAnswer::Reader answer) { readGenerated(answer); });
  check([](rpc::ParseAnswer::Reader answer) {
    KJ_ASSERT(readReport(answer).size() <= kMostReadyReport);
  });
  check(readAsAddresses);
  check(readAsSuperblock);
  check([](rpc::ParseAnswer::Reader answer) {
    auto found = readFoundOnDisk(answer);
    KJ_ASSERT(found.partitions.size() <= kMostPartitions && found.volumes.size() <= kMostVolumes);
    for (auto& name : found.partitions) requireLine(name);
    for (auto& volume : found.volumes) requireLine(volume.label);
  });
  check(readAsVerdict);
  check(readAsArchive);
  check(readAsPieces);
  check(readAsSignatures);
  check([](rpc::ParseAnswer::Reader answer) { KJ_ASSERT(isSha256(readSignedImage(answer))); });
  check([](rpc::ParseAnswer::Reader answer) { readAsHttp(answer, true); });
  check([](rpc::ParseAnswer::Reader answer) { readAsHttp(answer, false); });
  check([](rpc::ParseAnswer::Reader answer) {
    HttpProgress progress;
    if (answer.isProgress()) readProgress(answer, progress);
    requireLine(progress.doing);
  });
  KJ_ASSERT(!broken, "a promise of foreign-bytes.h is not kept");
  return 0;
}
