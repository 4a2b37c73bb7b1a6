; Large results on large pages, where the system gives them on demand: the first touch of a page costs a microsecond or
; two, a page of 4 KiB as much as one of 2 MiB. XLA takes large buffers from the system anew with every call.

declare i32 @madvise(ptr, i64, i32) nounwind

define internal void @enlarge_pages(ptr %job) nounwind {
entry:
  %kernel = get Job.kernel %job
  %arrays = get Kernel.arrays %kernel
  %arguments = get Kernel.arguments %kernel
  %count = get Kernel.count %kernel
  %models = get Job.models %job
  br label %each
each:
  %k = phi i64 [ %arguments, %entry ], [ %k.next, %next ]
  %over = icmp sge i64 %k, %count
  br i1 %over, label %end, label %look
look:
  %view = call ptr @view(ptr %job, i64 %k)
  %step = get View.model_step %view
  %numbers = mul i64 %models, %step
  %bytes = mul i64 %numbers, $bytes
  %large = icmp sge i64 %bytes, $large
  br i1 %large, label %advise, label %next
advise:
  %data = get View.data %view
  %first = ptrtoint ptr %data to i64
  %beyond = add i64 %first, 4095
  %page = and i64 %beyond, -4096
  %skipped = sub i64 %page, %first
  %length = sub i64 %bytes, %skipped
  %address = inttoptr i64 %page to ptr
  %ignored = call i32 @madvise(ptr %address, i64 %length, i32 14) ; MADV_HUGEPAGE
  br label %next
next:
  %k.next = add i64 %k, 1
  br label %each
end:
  ret void
}
