// The page that a program of a node shares with machined: the level of its log, and what it writes
// about its own crash. It is a sealed memory file that outlives the program: process 1 holds it.
//
// machined makes it and changes the level; the program maps it and writes the record. Neither waits
// for the other, and both need nothing but memory: the level counts at the next line of a program
// that hangs, and the record is written by a handler of a signal. machined trusts nothing in it.
#pragma once

#include <kj/array.h>
#include <stddef.h>
#include <stdint.h>

#include <atomic>

#include "common/base/log.h"

namespace talos::crash {

constexpr size_t kServicePageSize = 64u << 10;
constexpr size_t kMostRecord = kServicePageSize - 64;

// 0: nobody has set it.
constexpr uint8_t storedLevel(log::Level level) {
  return static_cast<uint8_t>(level) + 1;
}

struct ServicePage {
  char reserved[8];
  std::atomic<uint8_t> level;  // storedLevel()
  char padding[3];
  std::atomic<uint32_t> size;  // of the record; 0: there is none
  char unused[48];
  char record[kMostRecord];  // crash-record.h
};
static_assert(sizeof(ServicePage) == kServicePageSize);
static_assert(offsetof(ServicePage, record) == 64);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// A program's environment variable with the number of the descriptor.
constexpr const char* kServicePageVariable = "TALOS_SERVICE_PAGE_FD";

}  // namespace talos::crash
