// Writes lines to the kernel log, and so to the console. No allocation; a line is one write, cut at
// 960 bytes.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace talos::process1 {

class Line {
 public:
  Line& add(const char* text);
  Line& add(const char* bytes, size_t size);
  Line& add(int64_t number);
  Line& add(int number) { return add(static_cast<int64_t>(number)); }
  Line& add(unsigned number) { return add(static_cast<int64_t>(number)); }
  const char* text() const { return buffer; }  // terminated by zero
  size_t size() const { return used; }

 private:
  char buffer[961] = {};
  size_t used = 0;
};

class Console {
 public:
  // `prefix` comes before each line; `fd` is /dev/kmsg, or any other descriptor that takes lines.
  Console(int fd, const char* prefix, bool kernelLog = true)
      : fd(fd), prefix(prefix), kernelLog(kernelLog) {}

  template <typename... Parts>
  void info(Parts... parts) const {
    write(6, parts...);
  }
  // Shown even when the kernel's command line has "quiet".
  template <typename... Parts>
  void error(Parts... parts) const {
    write(3, parts...);
  }

 private:
  int fd;
  const char* prefix;
  bool kernelLog;

  template <typename... Parts>
  void write(int level, Parts... parts) const {
    Line line;
    start(line, level);
    (line.add(parts), ...);
    finish(line);
  }
  void start(Line& line, int level) const;
  void finish(Line& line) const;
};

// Returns the text of an errno, as strerror(3) does.
const char* errorText(int error);
// Adds "exit code 3" or "signal 11 (SEGV)" for a status of wait(2).
void addStatus(Line& line, int status);

// Opens the kernel log; falls back to descriptor 2.
Console openConsole(const char* prefix);

}  // namespace talos::process1
