// Page that a program of a node shares with machined: its debug switches, and its record of its own
// crash. It is a sealed memory file that outlives the program, because process 1 holds it.
//
// machined makes the page and changes the switches; the program maps it and writes the record, and
// the core. Neither waits for the other, and both need only memory: a new level takes effect at the
// next line, even of a program that hangs, and a signal handler can write the record. Unwritten
// parts take no memory. machined trusts nothing in the page.
#pragma once

#include <kj/array.h>
#include <stddef.h>
#include <stdint.h>

#include <atomic>

#include "common/base/log.h"

namespace talos::crash {

constexpr size_t kServicePageSize = 1u << 20;
constexpr size_t kCoreOffset = 64u << 10;
constexpr size_t kMostRecord = kCoreOffset - 64;
constexpr size_t kMostCore = kServicePageSize - kCoreOffset;

// 0 if it was never set.
constexpr uint8_t storedLevel(log::Level level) {
  return static_cast<uint8_t>(level) + 1;
}

struct ServicePage {
  char reserved[8];
  std::atomic<uint8_t> level;       // storedLevel()
  std::atomic<uint8_t> keepsCores;  // 1: a crash leaves a core
  char padding[2];
  std::atomic<uint32_t> size;      // of the record; 0 without a record
  std::atomic<uint32_t> coreSize;  // 0 without a core
  char unused[44];
  char record[kMostRecord];       // crash-record.h
  unsigned char core[kMostCore];  // core-writer.h
};
static_assert(sizeof(ServicePage) == kServicePageSize);
static_assert(offsetof(ServicePage, record) == 64);
static_assert(offsetof(ServicePage, core) == kCoreOffset);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Environment variable of a program with the number of the descriptor.
constexpr const char* kServicePageVariable = "TALOS_SERVICE_PAGE_FD";

}  // namespace talos::crash
