// The store's journal as bytes: a heading of 8 bytes, then records.
//
//   record = length (32 bits, little-endian, multiple of 8) · CRC-32 of length and message ·
//   message message = rpc::Change in Cap'n Proto's flat form: created or updated with the whole
//   resource,
//             destroyed with its metadata
//
// A record counts only when it is whole and its checksum is right, and what follows one that does
// not count does not count either: a journal that was cut anywhere, or torn in its last write, is
// the journal as it was after some earlier record. Nothing here reads or writes files; recover()
// takes any bytes.
#pragma once

#include <capnp/common.h>
#include <kj/array.h>
#include <kj/function.h>

#include "rpc/resources.capnp.h"

namespace talos::machined::journal {

kj::ArrayPtr<const kj::byte> heading();

kj::Array<kj::byte> encode(rpc::Change::Reader change);
// A flat message with length and checksum in front.
kj::Array<kj::byte> frame(kj::ArrayPtr<const kj::byte> message);

// Calls `apply` for every record of the longest valid prefix, in order, and returns the length of
// that prefix in bytes; 0 when there is not even a heading.
size_t recover(kj::ArrayPtr<const capnp::word> bytes,
               kj::FunctionParam<void(rpc::Change::Reader)> apply);

}  // namespace talos::machined::journal
