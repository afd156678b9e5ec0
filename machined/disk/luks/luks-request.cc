#include "machined/disk/luks/luks-request.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "machined/confined/frames/frame-stream.h"
#include "machined/disk/luks/luks-device.h"
#include "machined/disk/luks/luks-header-backup.h"
#include "machined/disk/luks/tpm-sealing.h"

namespace talos::luks {
namespace {

using Request = rpc::LuksRequest::Reader;
using Answer = rpc::LuksAnswer::Builder;

Key keyOf(rpc::LuksKey::Reader key) {
  return {key.getSlot(), key.getPassphrase(), key.getTokenType(), key.getUserData()};
}

kj::Array<Key> keysOf(capnp::List<rpc::LuksKey>::Reader keys) {
  return KJ_MAP(key, keys) {
    return keyOf(key);
  };
}

void inspect(Device& device, Answer answer) {
  auto out = answer.initFound();
  out.setContent(device.content());
  KJ_IF_MAYBE (problem, device.damage()) out.setProblem(*problem);
  if (device.content() != Content::LUKS) return;
  auto used = device.slots();
  auto slots = out.initSlots(used.size());
  kj::Vector<Token> found;
  kj::Vector<unsigned> places;
  for (size_t i = 0; i < used.size(); ++i) {
    slots.set(i, used[i]);
    KJ_IF_MAYBE (token, device.token(used[i])) {
      found.add(kj::mv(*token));
      places.add(used[i]);
    }
  }
  auto tokens = out.initTokens(found.size());
  for (auto i : kj::indices(found)) {
    tokens[i].setSlot(places[i]);
    tokens[i].setType(found[i].type);
    tokens[i].setUserData(found[i].userData);
  }
  KJ_IF_MAYBE (problem, device.weakness()) out.setProblem(*problem);
}

void open(Device& device, rpc::LuksRequest::Open::Reader params, Answer answer) {
  Flags flags{params.getNoReadWorkqueue(), params.getNoWriteWorkqueue(), params.getSameCpu()};
  KJ_IF_MAYBE (opened, device.open(keysOf(params.getKeys()), params.getMapping(), flags)) {
    auto out = answer.initOpened();
    out.setSlot(opened->slot);
    out.setKey(static_cast<uint32_t>(opened->key));
    out.setFresh(opened->fresh);
  } else {
    answer.setRejected();
  }
}

void test(Device& device, capnp::List<rpc::LuksKey>::Reader keys, Answer answer) {
  auto out = answer.initTested(keys.size());
  for (unsigned i = 0; i < keys.size(); ++i) out.set(i, device.fits(keyOf(keys[i])));
}

void seal(kj::StringPtr device, rpc::LuksRequest::Seal::Reader params, Answer answer) {
  if (params.getSecureBoot()) requireSecureBoot();
  auto pcrs = KJ_MAP(pcr, params.getPcrs())->unsigned {
    return pcr;
  };
  answer.setSealed(Tpm(device).seal(params.getSecret(), pcrs));
}

void unseal(kj::StringPtr device, kj::StringPtr userData, Answer answer) {
  auto pcrs = tpm::readUserData(userData).pcrs;
  auto out = answer.initUnsealed();
  out.setSecret(Tpm(device).unseal(userData));
  auto list = out.initPcrs(pcrs.size());
  for (auto i : kj::indices(pcrs)) list.set(i, pcrs[i].number);
}

void act(Request request, Answer answer) {
  if (request.isClose()) return close(request.getClose());
  if (request.isForget()) return forgetHeader(request.getForget());
  if (request.isSeal()) return seal(request.getDevice(), request.getSeal(), answer);
  if (request.isUnseal()) return unseal(request.getDevice(), request.getUnseal(), answer);
  Device device(request.getDevice());
  switch (request.which()) {
    case rpc::LuksRequest::INSPECT:
      return inspect(device, answer);
    case rpc::LuksRequest::FORMAT: {
      auto params = request.getFormat();
      return device.format(keysOf(params.getKeys()), {.keySize = params.getKeySize(),
                                                      .sectorSize = params.getSectorSize(),
                                                      .label = params.getLabel(),
                                                      .derivation = params.getDerivation()});
    }
    case rpc::LuksRequest::OPEN:
      return open(device, request.getOpen(), answer);
    case rpc::LuksRequest::TEST:
      return test(device, request.getTest(), answer);
    case rpc::LuksRequest::ADD: {
      auto params = request.getAdd();
      return device.add(keyOf(params.getKey()), keyOf(params.getBy()), params.getDerivation());
    }
    case rpc::LuksRequest::REMOVE: {
      auto params = request.getRemove();
      return device.remove(params.getSlot(), keyOf(params.getKeeping()));
    }
    case rpc::LuksRequest::SETTLE:
      return device.settle();
    case rpc::LuksRequest::COMPARE:
      return answer.setCompared(compareHeader(device, request.getCompare()));
    case rpc::LuksRequest::MARK:
      return markHeader(request.getMark());
    case rpc::LuksRequest::BACKUP:
      return backupHeader(device, request.getBackup().getFile(), request.getBackup().getLast());
    case rpc::LuksRequest::RESTORE:
      return restoreHeader(device, request.getRestore().getFile(),
                           keysOf(request.getRestore().getKeys()));
    case rpc::LuksRequest::CLOSE:
    case rpc::LuksRequest::FORGET:
    case rpc::LuksRequest::SEAL:
    case rpc::LuksRequest::UNSEAL:
      break;
  }
  KJ_FAIL_REQUIRE("not a request");
}

void reportFailure(const kj::Exception& e, Answer answer) {
  auto out = answer.initFailed();
  auto kind = kindOf(e);
  out.setKind(kind == ErrorKind::kUnavailable          ? rpc::LuksAnswer::Kind::BUSY
              : kind == ErrorKind::kFailedPrecondition ? rpc::LuksAnswer::Kind::PRECONDITION
                                                       : rpc::LuksAnswer::Kind::INTERNAL);
  out.setMessage(messageOf(e));
}

}  // namespace

int serve(int socket) {
  auto failure = kj::runCatchingExceptions([&]() {
    machined::BrainSocket brain(socket);
    auto words = brain.receive();
    KJ_DEFER(zeroize(words.asBytes()));
    capnp::FlatArrayMessageReader request(words, machined::readerOptions(words.size()));
    SecretMessage message;
    auto answer = message.initRoot<rpc::LuksAnswer>();
    auto wrong =
        kj::runCatchingExceptions([&]() { act(request.getRoot<rpc::LuksRequest>(), answer); });
    KJ_IF_MAYBE (e, wrong) reportFailure(*e, answer);
    brain.send(message);
  });
  return failure == nullptr ? 0 : 1;
}

}  // namespace talos::luks
