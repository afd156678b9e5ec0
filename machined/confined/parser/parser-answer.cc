#include "machined/confined/parser/parser-answer.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/config/config-reading.h"
#include "common/config/config-redact.h"
#include "common/config/documents/document-extensions.h"
#include "common/config/rules/containerd-part.h"
#include "common/memory/zeroize.h"
#include "common/net/ntp.h"
#include "machined/confined/parser-client/parser-messages.h"
#include "machined/confined/parser/config-text.h"
#include "machined/confined/parser/disk-probe.h"
#include "machined/confined/parser/generate-configs.h"
#include "machined/confined/parser/guest-info.h"
#include "machined/confined/parser/http-get.h"
#include "machined/confined/parser/image-archive.h"
#include "machined/confined/parser/image-signature.h"
#include "machined/confined/parser/kms-call.h"
#include "machined/confined/parser/partition-table.h"
#include "machined/confined/parser/user-data.h"
#include "machined/platforms/readers/file-platforms.h"
#include "machined/platforms/readers/readers.h"

namespace talos::parse {
namespace {

using machined::kMostAnswerBytes;

void failed(rpc::ParseAnswer::Builder out, const kj::Exception& e) {
  auto failure = out.initFailed();
  failure.setKind(static_cast<uint16_t>(kindOf(e)));
  failure.setMessage(messageOf(e));
}

config::Mode modeOf(rpc::ParseRequest::Mode mode) {
  switch (mode) {
    case rpc::ParseRequest::Mode::CLOUD:
      return config::Mode::kCloud;
    case rpc::ParseRequest::Mode::CONTAINER:
      return config::Mode::kContainer;
    default:
      return config::Mode::kMetal;
  }
}

void answerConfig(rpc::ParseRequest::Config::Reader request, rpc::ParseAnswer::Builder out) {
  auto file = request.getFile();
  auto config = config::parse(request.getDocument().asChars(), file);
  Problems problems;
  if (!config.empty()) config::checkMode(config, modeOf(request.getMode()), file, problems);
  kj::Vector<kj::String> errors, warnings;
  auto sort = [&](const Problems& list) {
    for (auto& p : list) {
      (p.severity == Problem::Severity::kError ? errors : warnings).add(p.toString());
    }
  };
  if (request.getKept()) {
    sort(config::problemsOfKept(config, file));
  } else {
    sort(config.problems());
  }
  sort(problems);
  if (config.empty()) {
    errors.add(kj::str(file, ": not a machine config: no document has the key \"machine\""));
  }
  auto size = config.get().totalSize().wordCount * sizeof(capnp::word);
  auto answer = out.initConfig();
  if (size <= kMostAnswerBytes) {
    answer.setView(config.get());
  } else {
    errors.add(kj::str(file, ": too large: it takes ", size, " bytes of memory, at most ",
                       kMostAnswerBytes));
  }
  answer.setEmpty(config.empty());
  fillTexts(answer.initErrors(static_cast<unsigned>(errors.size())), errors);
  fillTexts(answer.initWarnings(static_cast<unsigned>(warnings.size())), warnings);
}

void answerRedact(rpc::ParseRequest::Redact::Reader request, rpc::ParseAnswer::Builder out) {
  auto shown = config::redact(request.getFrom().asChars(), request.getTo().asChars());
  auto answer = out.initRedacted();
  answer.setFrom(shown.from);
  answer.setTo(shown.to);
}

void answerSuperblock(ReadBytes read, rpc::ParseAnswer::Builder out) {
  auto found = readSuperblock([&](uint64_t offset, size_t size) { return read(offset, size); });
  auto answer = out.initSuperblock();
  answer.setLostTable(found == nullptr && lostPartitionTable(kj::mv(read)));
  KJ_IF_MAYBE (f, found) {
    answer.setFound(true);
    answer.setType(static_cast<uint16_t>(f->type));
    answer.setLabel(f->label);
  }
}

void answerNtp(rpc::ParseRequest::Ntp::Reader request, rpc::ParseAnswer::Builder out) {
  auto verdict = ntp::judge(request.getReply(), request.getNonce(),
                            kj::UNIX_EPOCH + request.getSent() * kj::NANOSECONDS,
                            request.getElapsed() * kj::NANOSECONDS);
  KJ_SWITCH_ONEOF(verdict) {
    KJ_CASE_ONEOF(sample, ntp::Sample) {
      auto answer = out.initSample();
      answer.setOffset(sample.offset / kj::NANOSECONDS);
      answer.setDelay(sample.delay / kj::NANOSECONDS);
      answer.setRootDistance(sample.rootDistance / kj::NANOSECONDS);
      answer.setStratum(sample.stratum);
      answer.setLeap(sample.leap);
    }
    KJ_CASE_ONEOF(kiss, ntp::KissOfDeath) {
      auto answer = out.initKiss();
      answer.setAction(static_cast<uint16_t>(kiss.action));
      answer.setCode(kiss.code);
    }
    KJ_CASE_ONEOF(rejected, ntp::Rejected) {
      auto answer = out.initRejected();
      answer.setError(rejected.error);
      answer.setForged(rejected.forged);
    }
  }
}

void answerText(capnp::Data::Reader body, rpc::ParseAnswer::Builder out) {
  auto text = unpack(kj::heapArray(body.asChars()));
  KJ_DEFER(zeroize(text));
  requireText(text);
  out.setBody(text.asBytes());
}

void answerArchive(uint64_t size, ReadBytes read, rpc::ParseAnswer::Builder out) {
  auto parts = findImageParts(size, kj::mv(read));
  auto list = out.initArchive(static_cast<unsigned>(parts.size()));
  for (auto i : kj::indices(parts)) {
    list[i].setName(parts[i].name);
    list[i].setOffset(parts[i].offset);
    list[i].setSize(parts[i].size);
  }
}

void answerSignatures(capnp::Data::Reader manifest, rpc::ParseAnswer::Builder out) {
  auto found = findSignatures(manifest.asChars());
  auto list = out.initSignatures(static_cast<unsigned>(found.size()));
  for (auto i : kj::indices(found)) {
    list[i].setPayload(found[i].payload);
    list[i].setSignature(found[i].signature);
  }
}

void answerFacts(rpc::ParseRequest::Platform::Reader request, rpc::ParseAnswer::Builder out) {
  auto& platform = KJ_REQUIRE_NONNULL(platforms::called(request.getName()));
  platforms::Answers answers;
  for (auto each : request.getAnswers()) {
    auto body = each.getBody().asChars();
    bool properties = platform.encoding == platforms::Encoding::kOvfProperties &&
                      each.getName() == platforms::kOvfFile;
    if (properties) {
      auto metadata = readOvfProperties(platforms::kMetadataProperties, platforms::kOvfFile, body);
      if (metadata.size() > 0) answers.add("metadata", kj::mv(metadata));
    } else {
      answers.add(each.getName(), kj::heapArray(body));
    }
  }
  platforms::PlatformFacts facts;
  platforms::read(platform, answers, facts);
  facts.fill(out.initFacts());
}

void answerUserData(rpc::ParseRequest::UserData::Reader request, rpc::ParseAnswer::Builder out) {
  auto encoding = static_cast<platforms::Encoding>(request.getEncoding());
  auto text = readUserData(encoding, kj::heapArray(request.getContent().asChars()));
  KJ_DEFER(zeroize(text));
  out.setBody(text.asBytes());
}

void answerContainerd(rpc::ParseRequest::Containerd::Reader request,
                      rpc::ParseAnswer::Builder out) {
  config::ContainerdPart part;
  for (auto fragment : request.getFragments()) {
    for (auto& mistake : part.add(fragment.asChars())) {
      if (!mistake.warning) fail(ErrorKind::kInvalidArgument, mistake.message);
    }
  }
  auto text = part.over(request.getSystem().asChars());
  KJ_DEFER(zeroize(text));
  out.setBody(text.asBytes());
}

void answerExtensionConfigs(kj::ArrayPtr<const char> document, rpc::ParseAnswer::Builder out) {
  config::extensionConfigs(document, [&](unsigned size) { return out.initExtensionConfigs(size); });
}

void answerGuestConfig(PortCall port, rpc::ParseAnswer::Builder out) {
  GuestRpc rpc(kj::mv(port));
  auto text = guestConfig(rpc);
  KJ_DEFER(zeroize(text));
  out.setBody(text.asBytes());
}

void answerGuestFacts(PortCall port, rpc::ParseAnswer::Builder out) {
  GuestRpc rpc(kj::mv(port));
  auto metadata = guestMetadata(rpc);
  platforms::Answers answers;
  if (metadata.size() > 0) answers.add("metadata", kj::mv(metadata));
  platforms::PlatformFacts facts;
  platforms::read(platforms::kVmware, answers, facts);
  facts.fill(out.initFacts());
}

void answerClearGuestConfig(PortCall port, rpc::ParseAnswer::Builder out) {
  GuestRpc rpc(kj::mv(port));
  auto names = clearGuestConfig(rpc);
  fillTexts(out.initCleared(static_cast<unsigned>(names.size())), names);
}

PortCall orOfThisMachine(kj::Maybe<PortCall> port) {
  KJ_IF_MAYBE (given, port) return kj::mv(*given);
  return vmwarePort();
}

void dispatch(rpc::ParseRequest::Reader request, rpc::ParseAnswer::Builder out, ReadBytes read,
              kj::Maybe<PortCall> port) {
  switch (request.which()) {
    case rpc::ParseRequest::CONFIG:
      return answerConfig(request.getConfig(), out);
    case rpc::ParseRequest::REDACT:
      return answerRedact(request.getRedact(), out);
    case rpc::ParseRequest::SUPERBLOCK:
      return answerSuperblock(kj::mv(read), out);
    case rpc::ParseRequest::ARCHIVE:
      return answerArchive(request.getArchive(), kj::mv(read), out);
    case rpc::ParseRequest::SIGNATURES:
      return answerSignatures(request.getSignatures(), out);
    case rpc::ParseRequest::SIGNED_IMAGE:
      return out.setSignedImage(signedImage(request.getSignedImage().asChars()));
    case rpc::ParseRequest::NTP:
      return answerNtp(request.getNtp(), out);
    case rpc::ParseRequest::TEXT:
      return answerText(request.getText(), out);
    case rpc::ParseRequest::PLATFORM:
      return answerFacts(request.getPlatform(), out);
    case rpc::ParseRequest::USER_DATA:
      return answerUserData(request.getUserData(), out);
    case rpc::ParseRequest::READY_REPORT: {
      auto report = platforms::azureReadyReport(request.getReadyReport().asChars());
      return out.setBody(report.asBytes());
    }
    case rpc::ParseRequest::CONTAINERD:
      return answerContainerd(request.getContainerd(), out);
    case rpc::ParseRequest::EXTENSION_CONFIGS:
      return answerExtensionConfigs(request.getExtensionConfigs().asChars(), out);
    case rpc::ParseRequest::GUEST_CONFIG:
      return answerGuestConfig(orOfThisMachine(kj::mv(port)), out);
    case rpc::ParseRequest::GUEST_FACTS:
      return answerGuestFacts(orOfThisMachine(kj::mv(port)), out);
    case rpc::ParseRequest::CLEAR_GUEST_CONFIG:
      return answerClearGuestConfig(orOfThisMachine(kj::mv(port)), out);
    case rpc::ParseRequest::GENERATE:
      return answerGenerate(request.getGenerate(), out);
    default:
      fail(ErrorKind::kUnimplemented, "an unknown kind of request");
  }
}

}  // namespace

void answer(rpc::ParseRequest::Reader request, rpc::ParseAnswer::Builder out, ReadBytes read,
            kj::Maybe<PortCall> port) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                      [&]() { dispatch(request, out, kj::mv(read), kj::mv(port)); })) {
    failed(out, *e);
  }
}

void answerDisk(int disk, rpc::ParseAnswer::Builder out) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { probeDisk(disk, out.initDisk()); })) {
    failed(out, *e);
  }
}

void answerLookup(kj::ArrayPtr<const kj::String> found, const kj::Maybe<kj::Exception>& failure,
                  rpc::ParseAnswer::Builder out) {
  KJ_IF_MAYBE (e, failure) return failed(out, *e);
  auto count = kj::min(found.size(), size_t(machined::kMostAddresses));
  auto addresses = out.initAddresses(static_cast<unsigned>(count));
  for (auto i : kj::zeroTo(count)) addresses.set(i, found[i]);
}

namespace {

kj::Promise<void> answerPieces(HttpQuestion question, uint64_t from,
                               kj::Own<kj::AsyncIoStream> connection, SendAnswer& send) {
  HttpBody body;
  body.begins = [&send](uint64_t begin, uint64_t size) {
    send([&](rpc::ParseAnswer::Builder out) {
      auto begins = out.initBodyStart();
      begins.setFrom(begin);
      begins.setSize(size);
    });
  };
  body.piece = [&send](kj::ArrayPtr<const kj::byte> bytes) {
    send([&](rpc::ParseAnswer::Builder out) { out.setPiece(bytes); });
  };
  kj::Maybe<machined::HttpSource> moved;
  kj::Maybe<kj::Exception> failure;
  co_await httpGetPieces(kj::mv(connection), kj::mv(question), from, kj::mv(body))
      .then([&](kj::Maybe<machined::HttpSource> m) { moved = kj::mv(m); },
            [&](kj::Exception&& e) { failure = kj::mv(e); });
  send([&](rpc::ParseAnswer::Builder out) {
    KJ_IF_MAYBE (e, failure) return failed(out, *e);
    KJ_IF_MAYBE (place, moved) return machined::fillPlace(out.initMoved(), *place);
    out.setComplete();
  });
}

}  // namespace

kj::Promise<void> answerHttp(rpc::ParseRequest::Http::Reader request,
                             kj::Own<kj::AsyncIoStream> connection, SendAnswer& send) {
  auto place = machined::readRequest(request.getPlace());
  auto now = kj::UNIX_EPOCH + request.getNow() * kj::SECONDS;
  auto progress = [&send](kj::StringPtr what, size_t received) {
    send([&](rpc::ParseAnswer::Builder out) {
      auto doing = out.initProgress();
      doing.setStep(what);
      doing.setReceived(received);
    });
  };
  HttpQuestion question{.place = place,
                        .authorities = request.getAuthorities(),
                        .now = now,
                        .reportProgress = kj::mv(progress)};
  kj::Maybe<machined::HttpAnswer> answer;
  kj::Maybe<kj::Exception> failure;
  if (request.getPieces()) {
    co_return co_await answerPieces(kj::mv(question), request.getFrom(), kj::mv(connection), send);
  }
  auto got = httpGet(kj::mv(connection), kj::mv(question));
  co_await got.then([&](machined::HttpAnswer a) { answer = kj::mv(a); },
                    [&](kj::Exception&& e) { failure = kj::mv(e); });
  send([&](rpc::ParseAnswer::Builder out) {
    KJ_IF_MAYBE (e, failure) return failed(out, *e);
    KJ_SWITCH_ONEOF(KJ_ASSERT_NONNULL(answer)) {
      KJ_CASE_ONEOF(body, kj::Array<char>) {
        out.setBody(body.asBytes());
      }
      KJ_CASE_ONEOF(moved, machined::HttpSource) {
        machined::fillPlace(out.initMoved(), moved);
      }
    }
  });
}

kj::Promise<void> answerKms(kj::Timer& timer, rpc::ParseRequest::Kms::Reader request,
                            kj::Own<kj::AsyncIoStream> connection, SendAnswer& send) {
  machined::KmsCall call{.secure = request.getSecure(),
                         .host = request.getHost(),
                         .authority = request.getAuthority(),
                         .authorities = request.getAuthorities(),
                         .node = request.getNode(),
                         .secret = request.getSecret(),
                         .userData = request.getUserData()};
  auto progress = [&send](kj::StringPtr what) {
    send([&](rpc::ParseAnswer::Builder out) { out.initProgress().setStep(what); });
  };
  kj::Array<kj::byte> key;
  kj::Maybe<kj::Exception> failure;
  auto calling =
      kj::evalNow([&]() { return callKms(timer, kj::mv(connection), call, kj::mv(progress)); });
  co_await calling.then([&](kj::Array<kj::byte> k) { key = kj::mv(k); },
                        [&](kj::Exception&& e) { failure = kj::mv(e); });
  send([&](rpc::ParseAnswer::Builder out) {
    KJ_IF_MAYBE (e, failure) return failed(out, *e);
    out.setBody(key);
  });
}

}  // namespace talos::parse
