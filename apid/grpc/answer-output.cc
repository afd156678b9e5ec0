#include "apid/grpc/answer-output.h"

#include <kj/debug.h>
#include <string.h>

namespace talos::grpcapi {
namespace {

using grpc::GrpcStatus;

// The longest text of an error, as for a status (common/grpc/grpc-server-call.cc): another node may
// have sent it.
constexpr size_t kMostErrorText = 8192;

// Answers up to this size are covered by the charge for their call (common/wire/budget.h).
constexpr size_t kSmall = 16u << 10;

constexpr kj::uint kFailedPrecondition = 9, kAlreadyExists = 6, kPermissionDenied = 7;

constexpr kj::StringPtr kCodeNames[] = {
    "OK"_kj,
    "Canceled"_kj,
    "Unknown"_kj,
    "InvalidArgument"_kj,
    "DeadlineExceeded"_kj,
    "NotFound"_kj,
    "AlreadyExists"_kj,
    "PermissionDenied"_kj,
    "ResourceExhausted"_kj,
    "FailedPrecondition"_kj,
    "Aborted"_kj,
    "OutOfRange"_kj,
    "Unimplemented"_kj,
    "Internal"_kj,
    "Unavailable"_kj,
    "DataLoss"_kj,
    "Unauthenticated"_kj,
};

}  // namespace

GrpcStatus statusOf(const Entry& entry, const kj::Exception& problem) {
  auto status = grpc::statusOf(problem);
  if (status.message.size() > kMostErrorText) {
    status.message = kj::heapString(status.message.slice(0, kMostErrorText));
  }
  if (status.code == kFailedPrecondition && entry.conflictMeansExists &&
      kindOf(problem) == ErrorKind::kConflict) {
    status.code = kAlreadyExists;
  }
  // Scripts match this text, which is true only for missing roles.
  if (status.code == kPermissionDenied && strstr(status.message.cStr(), " needs the role ")) {
    status.message = kj::str("not authorized: ", status.message);
  }
  return status;
}

namespace {

// Writes field 1 of an answer: its node, and the error if there is one.
void writeMetadata(WireWriter& out, kj::StringPtr node, const GrpcStatus* problem = nullptr) {
  WireWriter metadata;
  metadata.text(1, node);
  if (problem != nullptr) {
    KJ_ASSERT(problem->code < kj::size(kCodeNames));
    metadata.text(
        2, kj::str("rpc error: code = ", kCodeNames[problem->code], " desc = ", problem->message));
    WireWriter status;
    status.varint(1, problem->code);
    status.text(2, problem->message);
    metadata.bytes(3, status.written());
  }
  out.bytes(1, metadata.written());
}

// Space reserved for an error besides the node's name; and the bytes that one byte of the name can
// become if it is not UTF-8.
constexpr size_t kProblem = 1024, kReplaced = 3;

// Returns the size of a field of a message.
size_t framed(size_t bytes) {
  WireWriter length;
  length.varint(1, bytes);
  return length.size() + bytes;
}

}  // namespace

void AnswerCharge::set(size_t bytes) {
  if (bytes <= kSmall) bytes = 0;
  if (bytes < charged) {
    holds.clear();
    charged = 0;
  }
  if (bytes == charged) return;
  KJ_IF_MAYBE (a, account) holds.add(a->hold(bytes - charged));
  charged = bytes;
}

bool AnswerCharge::trySet(size_t bytes) {
  return kj::runCatchingExceptions([&]() { set(bytes); }) == nullptr;
}

MergedAnswer::MergedAnswer(kj::ArrayPtr<const kj::StringPtr> names,
                           kj::Maybe<Budget::Account&> account)
    : names(names),
      charge(account),
      parts(kj::heapArray<kj::Vector<kj::Array<kj::byte>>>(kj::max(names.size(), size_t(1)))),
      done(kj::heapArray<bool>(parts.size())) {
  for (auto i : kj::indices(parts)) {
    done[i] = false;
    reserved += reservedFor(i);
  }
}

size_t MergedAnswer::reservedFor(size_t index) const {
  return names.size() == 0 || done[index] ? 0 : kProblem + kReplaced * names[index].size();
}

void MergedAnswer::put(size_t index, kj::Array<kj::byte> part) {
  size += framed(part.size());
  parts[index].add(kj::mv(part));
}

void MergedAnswer::add(size_t index, kj::Array<kj::byte> part) {
  if (parts[index].size() > 0) fail(ErrorKind::kInternal, "a node has answered twice");
  auto all = size + reserved + framed(part.size());
  if (all > kMostMerged) {
    fail(ErrorKind::kResourceExhausted,
         parts.size() == 1
             ? kj::str("the answer has ", part.size(), " bytes; clients accept at most ",
                       kMostMerged)
             : kj::str("the answers of all nodes have ", all, " bytes; clients accept at most ",
                       kMostMerged, "; ask fewer nodes at once"));
  }
  charge.set(size + part.size());
  put(index, kj::mv(part));
}

void MergedAnswer::addProblem(size_t index, kj::StringPtr node, GrpcStatus status) {
  for (;;) {
    WireWriter out;
    writeMetadata(out, node, &status);
    auto fits = size + reserved - reservedFor(index) + framed(out.size()) <= kMostMerged;
    // The call's own charge covers an error without a text: the answer must say which node failed,
    // and how.
    if (status.message.size() == 0) return put(index, out.finish());
    if (fits && charge.trySet(size + out.size())) return put(index, out.finish());
    status.message = kj::heapString(status.message.slice(0, status.message.size() / 2));
  }
}

void MergedAnswer::complete(size_t index) {
  reserved -= reservedFor(index);
  done[index] = true;
}

kj::Array<kj::byte> MergedAnswer::finish() {
  WireWriter out;
  for (auto& ofNode : parts) {
    for (auto& part : ofNode) out.bytes(1, part);
    ofNode.clear();
  }
  size = 0;
  charge.set(0);  // The message counts as soon as it waits to be sent.
  return out.finish();
}

AnswerCharge Output::charge(capnp::MessageSize kept) {
  AnswerCharge charge(account);
  charge.set(kept.wordCount * sizeof(capnp::word));
  return charge;
}

kj::Promise<void> Output::send(kj::Array<kj::byte> message) {
  if (named) {
    WireWriter out;
    writeMetadata(out, node);
    out.append(message);
    message = out.finish();
  }
  if (entry.answer != Answer::kMerged) return call.send(kj::mv(message));
  merged.add(index, kj::mv(message));
  return kj::READY_NOW;
}

kj::Promise<void> Output::sendProblem(kj::Exception problem) {
  auto status = statusOf(entry, problem);
  if (entry.answer == Answer::kMerged) {
    merged.addProblem(index, named ? node : kj::StringPtr(), kj::mv(status));
    return kj::READY_NOW;
  }
  WireWriter out;
  writeMetadata(out, named ? node : kj::StringPtr(), &status);
  return call.send(out.finish());
}

}  // namespace talos::grpcapi
