// Stands below the sources of Hexagon kernels: what their entry points ask of the DSP's runtime, and a caller.

#include <string.h>

static void* memory_of_fd[256];

int HAP_power_set(void* handle, void* request) {
  (void)handle, (void)request;
  return 0;
}
void* HAP_mmap(void* address, int length, int protection, int flags, int fd, long offset) {
  (void)address, (void)length, (void)protection, (void)flags, (void)offset;
  return memory_of_fd[fd];
}
int HAP_munmap(void* address, int length) {
  (void)address, (void)length;
  return 0;
}
unsigned long long HAP_perf_get_time_us(void) { return 0; }

/// Calls a kernel's entry on `count` buffers and the values of its variables; each buffer lies 16 bytes into what is mapped.
static void call_entry(int (*entry_point)(unsigned long long, unsigned int, remote_arg*), void* const* buffers,
                       int count, const int* variables, int variable_count) {
  int values[256] = {0}, offsets[256];
  unsigned long long time = 0;
  remote_arg arguments[259];
  memset(arguments, 0, sizeof arguments);
  arguments[0].buf.pv = values;
  arguments[1].buf.pv = offsets;
  arguments[2].buf.pv = &time;
  for (int i = 0; i < count; i++) {
    memory_of_fd[i] = (char*)buffers[i] - 16;
    offsets[i] = 16;
    arguments[i + 3].dma.fd = i;
  }
  for (int i = 0; i < variable_count; i++) values[count + i] = variables[i];
  entry_point(0, 2u << 24, arguments);
}
